//! Maps field paths to line and column of a YAML file, so that validation errors can point at their source.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// The positions of all fields of a file.
pub(super) struct FieldPositions(Spanned<YamlNode>);

enum YamlNode {
    Map(HashMap<String, Spanned<YamlNode>>),
    Sequence(Vec<Spanned<YamlNode>>),
    Scalar,
}

impl FieldPositions {
    /// `None` if the text is not valid YAML.
    pub(super) fn read(text: &str) -> Option<FieldPositions> {
        serde_saphyr::from_str(text).ok().map(FieldPositions)
    }

    /// Line and column of a field, or of its innermost existing ancestor.
    pub(super) fn position_of(&self, field: &str) -> (u64, u64) {
        let mut node = &self.0;
        for step in field.split(['.', '[']) {
            let inner = match &node.value {
                YamlNode::Map(entries) => entries.get(step),
                YamlNode::Sequence(items) => {
                    let index = step.trim_end_matches(']').parse().ok();
                    index.and_then(|index: usize| items.get(index))
                }
                YamlNode::Scalar => None,
            };
            match inner {
                Some(inner) => node = inner,
                None => break,
            }
        }
        (node.referenced.line(), node.referenced.column())
    }
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<YamlNode, D::Error> {
        deserializer.deserialize_any(YamlNodeVisitor)
    }
}

struct YamlNodeVisitor;

impl<'de> Visitor<'de> for YamlNodeVisitor {
    type Value = YamlNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlNode, A::Error> {
        let mut entries = HashMap::new();
        while let Some((key, value)) = map.next_entry::<String, Spanned<YamlNode>>()? {
            entries.insert(key, value);
        }
        Ok(YamlNode::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<YamlNode, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(YamlNode::Sequence(items))
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<YamlNode, D::Error> {
        IgnoredAny::deserialize(inner).map(|_| YamlNode::Scalar)
    }

    fn visit_unit<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_none<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_bool<E>(self, _: bool) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_paths_map_to_line_and_column() {
        let text = "a: 1\nb:\n- c: x\n  d: [1, 2]\n- e:\n    f: 2.5\n";
        let positions = FieldPositions::read(text).unwrap();
        for (field, position) in [
            ("a", (1, 4)),
            ("b[0].c", (3, 6)),
            ("b[0].d[1]", (4, 10)),
            ("b[1].e.f", (6, 8)),
            ("b[1].e.g.h[3]", (6, 5)),
            ("b[7].x", (3, 3)),
            ("z", (1, 1)),
        ] {
            assert_eq!(positions.position_of(field), position, "{field}");
        }
        assert!(FieldPositions::read("a: [").is_none());
    }
}
