//! Where in a file a field is, so that whoever wrote it finds what is wrong with it.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// The places of all fields.
pub(super) struct Places(Spanned<Tree>);

enum Tree {
    Map(HashMap<String, Spanned<Tree>>),
    List(Vec<Spanned<Tree>>),
    Leaf,
}

impl Places {
    /// `None` if it is no YAML.
    pub(super) fn read(text: &str) -> Option<Places> {
        serde_saphyr::from_str(text).ok().map(Places)
    }

    /// The line and the column of a field, or of the innermost thing around it that is there.
    pub(super) fn of(&self, field: &str) -> (u64, u64) {
        let mut place = &self.0;
        for step in field.split(['.', '[']) {
            let inner = match &place.value {
                Tree::Map(entries) => entries.get(step),
                Tree::List(items) => {
                    let index = step.trim_end_matches(']').parse().ok();
                    index.and_then(|index: usize| items.get(index))
                }
                Tree::Leaf => None,
            };
            match inner {
                Some(inner) => place = inner,
                None => break,
            }
        }
        (place.referenced.line(), place.referenced.column())
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = HashMap::new();
        while let Some((key, value)) = map.next_entry::<String, Spanned<Tree>>()? {
            entries.insert(key, value);
        }
        Ok(Tree::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Tree, D::Error> {
        IgnoredAny::deserialize(inner).map(|_| Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_where_they_are_written() {
        let text = "a: 1\nb:\n- c: x\n  d: [1, 2]\n- e:\n    f: 2.5\n";
        let places = Places::read(text).unwrap();
        for (field, place) in [
            ("a", (1, 4)),
            ("b[0].c", (3, 6)),
            ("b[0].d[1]", (4, 10)),
            ("b[1].e.f", (6, 8)),
            ("b[1].e.g.h[3]", (6, 5)),
            ("b[7].x", (3, 3)),
            ("z", (1, 1)),
        ] {
            assert_eq!(places.of(field), place, "{field}");
        }
        assert!(Places::read("a: [").is_none());
    }
}
