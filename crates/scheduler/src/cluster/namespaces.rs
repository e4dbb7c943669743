//! The labels of namespaces, for the namespace selectors of affinity terms.

use std::collections::HashMap;

use crate::model::Labels;

#[derive(Debug, Default)]
pub(super) struct NamespaceLabels {
    labels: HashMap<Box<str>, Labels>,
    empty: Labels,
}

impl NamespaceLabels {
    /// Empty for a namespace that is not known.
    pub(super) fn labels(&self, name: &str) -> &Labels {
        self.labels.get(name).unwrap_or(&self.empty)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.labels.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.labels.keys().map(|name| &**name)
    }

    /// Returns the previous labels.
    pub(super) fn set(&mut self, name: &str, labels: Labels) -> Labels {
        self.labels.insert(name.into(), labels).unwrap_or_default()
    }

    pub(super) fn remove(&mut self, name: &str) -> Labels {
        self.labels.remove(name).unwrap_or_default()
    }
}
