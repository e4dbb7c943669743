//! The labels of namespaces.

use std::collections::HashMap;

use crate::model::Labels;

#[derive(Debug, Default)]
pub(super) struct Namespaces {
    labels: HashMap<Box<str>, Labels>,
    none: Labels,
}

impl Namespaces {
    pub(super) fn labels(&self, name: &str) -> &Labels {
        self.labels.get(name).unwrap_or(&self.none)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.labels.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.labels.keys().map(|name| &**name)
    }

    /// The labels before.
    pub(super) fn set(&mut self, name: &str, labels: Labels) -> Labels {
        self.labels.insert(name.into(), labels).unwrap_or_default()
    }

    pub(super) fn remove(&mut self, name: &str) -> Labels {
        self.labels.remove(name).unwrap_or_default()
    }
}
