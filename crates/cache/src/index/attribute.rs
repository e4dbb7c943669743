//! What objects can be indexed by.

use std::sync::{Arc, LazyLock};

use crate::Entry;

static EMPTY: LazyLock<Arc<str>> = LazyLock::new(|| "".into());

/// Something that objects have a value of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// A label, by its key. Objects without it are not in the index.
    Label(Arc<str>),
    /// A selectable field, by its place in [`crate::Projector::fields`]. Every object has one, if only an empty one.
    Field(usize),
}

impl Attribute {
    pub(crate) fn value<'a>(&self, entry: &'a Entry) -> Option<&'a Arc<str>> {
        match self {
            Attribute::Label(key) => entry.label(key),
            Attribute::Field(index) => Some(entry.fields.get(*index).unwrap_or(&EMPTY)),
        }
    }
}
