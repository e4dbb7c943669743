//! Whether a change concerns a watcher, and as what. Pure.

use std::sync::Arc;

use rhumb_meta::{ObjectKey, Revision, fields, labels};

use super::Scope;
use crate::change::Change;
use crate::index::Query;
use crate::{Entry, EventKind};

#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) scope: Scope,
    pub(crate) labels: labels::Selector,
    pub(crate) fields: fields::Selector,
    /// Only changes after this one.
    pub(crate) after: Revision,
}

impl Filter {
    /// What there is to begin with, for a filter that does not name one object.
    pub(crate) fn query<'a>(&'a self, names: &'a [Arc<str>]) -> Query<'a> {
        Query::new(self.scope.namespace(), &self.labels, &self.fields, names)
    }

    /// What the change is in the eyes of the watcher: coming into its selection is an addition, leaving it a
    /// deletion. `names` are those of the resource's selectable fields.
    pub(crate) fn judge(&self, change: &Change, names: &[Arc<str>]) -> Option<EventKind> {
        if change.revision <= self.after || !self.scope.has(&change.key) {
            return None;
        }
        let picks =
            |entry: Option<&Arc<Entry>>| entry.is_some_and(|entry| self.picks(entry, names));
        match (picks(change.old.as_ref()), picks(change.new.served())) {
            (false, false) => None,
            (false, true) => Some(EventKind::Added),
            (true, true) => Some(EventKind::Modified),
            (true, false) => Some(EventKind::Deleted),
        }
    }

    /// Whether the selectors pick the object, whatever its name.
    pub(crate) fn picks(&self, entry: &Entry, names: &[Arc<str>]) -> bool {
        entry.is_picked_by(&self.labels, &self.fields, names)
    }
}

impl Scope {
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        match self {
            Scope::All => true,
            Scope::Namespace(wanted) => key.namespace() == Some(wanted),
            Scope::Object { namespace, name } => {
                key.name() == &**name && key.namespace() == namespace.as_deref()
            }
        }
    }

    /// Of the one object, if it is one and can exist.
    pub(crate) fn key(&self) -> Option<ObjectKey> {
        match self {
            Scope::Object { namespace, name } => ObjectKey::new(namespace.as_deref(), name).ok(),
            Scope::All | Scope::Namespace(_) => None,
        }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace),
            Scope::Object { namespace, .. } => namespace.as_deref(),
        }
    }
}
