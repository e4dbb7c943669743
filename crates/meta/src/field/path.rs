//! Where a field is: `spec.containers[0].name`, `metadata.labels[app]`.

use std::fmt;

/// A field path that borrows its parent.
///
/// Validation walks every field of every write and nearly never has anything to report. A path therefore
/// costs no allocation; it is written out only when an error is made of it.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    element: Element<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Element<'a> {
    Nil,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// No path at all: printed `<nil>`, as upstream prints its absent path. Its children start at the root.
    pub const NIL: Path<'static> = Path {
        parent: None,
        element: Element::Nil,
    };

    /// A field of the object itself; may name several levels at once (`spec.template`).
    #[inline]
    pub const fn new(name: &'a str) -> Self {
        Path {
            parent: None,
            element: Element::Name(name),
        }
    }

    /// A field of this one; may name several levels at once.
    #[inline]
    pub const fn child(&'a self, name: &'a str) -> Path<'a> {
        self.with(Element::Name(name))
    }

    /// An item of this list.
    #[inline]
    pub const fn index(&'a self, index: usize) -> Path<'a> {
        self.with(Element::Index(index))
    }

    /// An entry of this map.
    #[inline]
    pub const fn key(&'a self, key: &'a str) -> Path<'a> {
        self.with(Element::Key(key))
    }

    #[inline]
    const fn with(&'a self, element: Element<'a>) -> Path<'a> {
        let parent = if matches!(self.element, Element::Nil) {
            None
        } else {
            Some(self)
        };
        Path { parent, element }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Collected rather than recursed into: a path may be as deep as the object it points into.
        let mut elements: Vec<&Element<'_>> = Vec::new();
        let mut next = Some(self);
        while let Some(path) = next {
            elements.push(&path.element);
            next = path.parent;
        }
        for (position, element) in elements.iter().rev().enumerate() {
            match element {
                Element::Nil => f.write_str("<nil>")?,
                Element::Name("") => f.write_str("[]")?,
                Element::Name(name) if position == 0 => f.write_str(name)?,
                Element::Name(name) => write!(f, ".{name}")?,
                Element::Index(index) => write!(f, "[{index}]")?,
                Element::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_as_upstream() {
        let spec = Path::new("spec");
        assert_eq!(spec.to_string(), "spec");
        assert_eq!(
            spec.child("containers").index(0).child("name").to_string(),
            "spec.containers[0].name"
        );
        assert_eq!(
            spec.child("template.spec").child("nodeName").to_string(),
            "spec.template.spec.nodeName"
        );
        let metadata = Path::new("metadata");
        assert_eq!(
            metadata.child("labels").key("example.com/app").to_string(),
            "metadata.labels[example.com/app]"
        );
        assert_eq!(Path::NIL.to_string(), "<nil>");
        assert_eq!(
            Path::NIL.child("values").index(1).key("a").to_string(),
            "values[1][a]"
        );
        assert_eq!(Path::NIL.key("a").to_string(), "[a]");
    }
}
