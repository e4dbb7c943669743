//! Field paths: `spec.containers[0].name`, `metadata.labels[app]`.

use std::fmt;

/// A field path that borrows its parent.
///
/// Building a path does not allocate, because validation visits every field of every write and rarely reports an
/// error. A path is formatted only for an error.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    element: PathElement<'a>,
}

#[derive(Debug, Clone, Copy)]
enum PathElement<'a> {
    Nil,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The absent path: printed as `<nil>`, as upstream prints a nil path. Its children start at the root.
    pub const NIL: Path<'static> = Path {
        parent: None,
        element: PathElement::Nil,
    };

    /// A field of the object; may contain several levels (`spec.template`).
    #[inline]
    pub const fn new(name: &'a str) -> Self {
        Path {
            parent: None,
            element: PathElement::Name(name),
        }
    }

    /// A child field; may contain several levels.
    #[inline]
    pub const fn child(&'a self, name: &'a str) -> Path<'a> {
        self.with(PathElement::Name(name))
    }

    /// A list item.
    #[inline]
    pub const fn index(&'a self, index: usize) -> Path<'a> {
        self.with(PathElement::Index(index))
    }

    /// A map entry.
    #[inline]
    pub const fn key(&'a self, key: &'a str) -> Path<'a> {
        self.with(PathElement::Key(key))
    }

    #[inline]
    const fn with(&'a self, element: PathElement<'a>) -> Path<'a> {
        let parent = if matches!(self.element, PathElement::Nil) {
            None
        } else {
            Some(self)
        };
        Path { parent, element }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Iterative, because a path may be as deep as the object.
        let mut elements: Vec<&PathElement<'_>> = Vec::new();
        let mut next = Some(self);
        while let Some(path) = next {
            elements.push(&path.element);
            next = path.parent;
        }
        for (position, element) in elements.iter().rev().enumerate() {
            match element {
                PathElement::Nil => f.write_str("<nil>")?,
                PathElement::Name("") => f.write_str("[]")?,
                PathElement::Name(name) if position == 0 => f.write_str(name)?,
                PathElement::Name(name) => write!(f, ".{name}")?,
                PathElement::Index(index) => write!(f, "[{index}]")?,
                PathElement::Key(key) => write!(f, "[{key}]")?,
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
