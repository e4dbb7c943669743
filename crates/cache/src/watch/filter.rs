//! Decides which event, if any, a change is for a watcher. Pure.

use std::sync::Arc;

use rhumb_meta::{ObjectKey, Revision, fields, labels};

use super::WatchScope;
use crate::index::SelectorQuery;
use crate::object_change::ObjectChange;
use crate::{CacheEntry, EventKind};

/// The scope and selectors of a watch.
#[derive(Debug)]
pub(crate) struct WatchFilter {
    pub(crate) scope: WatchScope,
    pub(crate) labels: labels::Selector,
    pub(crate) fields: fields::Selector,
    /// Ignore changes up to this revision.
    pub(crate) after: Revision,
}

impl WatchFilter {
    /// The query for the initial list, for a filter that is not limited to a single object.
    pub(crate) fn query<'a>(&'a self, names: &'a [Arc<str>]) -> SelectorQuery<'a> {
        SelectorQuery::new(self.scope.namespace(), &self.labels, &self.fields, names)
    }

    /// The kind of event that the watcher receives for a change, if any: an object that begins to match is ADDED, one
    /// that no longer matches is DELETED. `names` are the resource's selectable fields.
    pub(crate) fn classify(&self, change: &ObjectChange, names: &[Arc<str>]) -> Option<EventKind> {
        if change.revision <= self.after || !self.scope.contains(&change.key) {
            return None;
        }
        let matches =
            |entry: Option<&Arc<CacheEntry>>| entry.is_some_and(|entry| self.matches(entry, names));
        match (matches(change.old.as_ref()), matches(change.new.entry())) {
            (false, false) => None,
            (false, true) => Some(EventKind::Added),
            (true, true) => Some(EventKind::Modified),
            (true, false) => Some(EventKind::Deleted),
        }
    }

    /// Whether the selectors match the object, regardless of the scope.
    pub(crate) fn matches(&self, entry: &CacheEntry, names: &[Arc<str>]) -> bool {
        entry.matches(&self.labels, &self.fields, names)
    }
}

impl WatchScope {
    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        match self {
            WatchScope::All => true,
            WatchScope::Namespace(namespace) => key.namespace() == Some(namespace),
            WatchScope::Object { namespace, name } => {
                key.name() == &**name && key.namespace() == namespace.as_deref()
            }
        }
    }

    /// The key of the single object, if the scope is one and its key is valid.
    pub(crate) fn object_key(&self) -> Option<ObjectKey> {
        match self {
            WatchScope::Object { namespace, name } => {
                ObjectKey::new(namespace.as_deref(), name).ok()
            }
            WatchScope::All | WatchScope::Namespace(_) => None,
        }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            WatchScope::All => None,
            WatchScope::Namespace(namespace) => Some(namespace),
            WatchScope::Object { namespace, .. } => namespace.as_deref(),
        }
    }
}
