//! The attributes that objects can be indexed by.

use std::sync::{Arc, LazyLock};

use crate::CacheEntry;

static EMPTY: LazyLock<Arc<str>> = LazyLock::new(|| "".into());

/// A label or field whose values are indexed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum IndexedAttribute {
    /// A label, by its key. Objects without the label are not in the index.
    Label(Arc<str>),
    /// A selectable field, by its position in [`crate::ObjectProjector::field_names`]. Every object has a value, which
    /// may be empty.
    Field(usize),
}

impl IndexedAttribute {
    pub(crate) fn value<'a>(&self, entry: &'a CacheEntry) -> Option<&'a Arc<str>> {
        match self {
            IndexedAttribute::Label(key) => entry.label(key),
            IndexedAttribute::Field(index) => Some(entry.fields.get(*index).unwrap_or(&EMPTY)),
        }
    }
}
