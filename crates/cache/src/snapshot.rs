//! All objects of a resource as of one revision.

use std::sync::Arc;

use imbl::OrdMap;
use rhumb_meta::{ObjectKey, Revision};

use crate::change::{Change, State};
use crate::index::{Index, Query};
use crate::{Entry, Unreadable};

/// The objects after some change. Clones share their memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Version {
    /// Of the last change in it.
    pub(crate) revision: Revision,
    /// Of the next change.
    pub(crate) sequence: u64,
    pub(crate) objects: OrdMap<ObjectKey, Arc<Entry>>,
    pub(crate) unreadable: OrdMap<ObjectKey, Arc<Unreadable>>,
    /// Of the latest version only: the past has none.
    pub(crate) indexes: Arc<Vec<Index>>,
    /// Of all objects' JSON and frames.
    pub(crate) bytes: usize,
}

impl Version {
    pub(crate) fn get(&self, key: &ObjectKey) -> Result<Option<&Arc<Entry>>, Unreadable> {
        match self.unreadable.get(key) {
            Some(unreadable) => Err(Unreadable::clone(unreadable)),
            None => Ok(self.objects.get(key)),
        }
    }

    /// The same objects without the indexes, which would be copied piece by piece while this is kept.
    pub(crate) fn bare(&self) -> Self {
        Version {
            indexes: Arc::default(),
            ..self.clone()
        }
    }

    /// Gives it these indexes, filled with its own objects.
    pub(crate) fn index(&mut self, indexes: &[Index]) {
        let filled = indexes
            .iter()
            .map(|index| index.refilled(self.objects.values()));
        self.indexes = Arc::new(filled.collect());
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        self.set(&change.key, change.new.clone());
        self.revision = change.revision;
        self.sequence = change.sequence + 1;
    }

    pub(crate) fn set(&mut self, key: &ObjectKey, state: State) {
        if !self.unreadable.is_empty() {
            self.unreadable.remove(key);
        }
        let new = state.served().cloned();
        let old = match state {
            State::Served(entry) => {
                self.bytes += entry.bytes();
                self.objects.insert(key.clone(), entry)
            }
            State::Absent => self.objects.remove(key),
            State::Unreadable(why) => {
                self.unreadable.insert(key.clone(), why);
                self.objects.remove(key)
            }
        };
        if !self.indexes.is_empty() {
            for index in Arc::make_mut(&mut self.indexes) {
                index.replace(old.as_ref(), new.as_ref());
            }
        }
        self.bytes -= old.map_or(0, |old| old.bytes());
    }
}

/// All objects of a resource as of one revision. Never changes; clones share their memory.
#[derive(Debug, Clone)]
pub struct Snapshot {
    revision: Revision,
    version: Version,
}

impl Snapshot {
    pub(crate) fn new(revision: Revision, version: Version) -> Self {
        Snapshot { revision, version }
    }

    /// What the objects are as of. A watch after it continues without gap or repeat.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.version.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.version.objects.is_empty()
    }

    /// The object at `key`, if there is one.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<&Arc<Entry>>, Unreadable> {
        self.version.get(key)
    }

    /// The objects in key order, as pages of a list follow it: those of one namespace if one is given, and
    /// only those after a key if one is given. Beginning takes logarithmic time wherever that is.
    ///
    /// Objects that cannot be served are left out; [`Snapshot::unreadable`] has them.
    pub fn range<'a>(
        &'a self,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        let is_empty = self.version.objects.is_empty();
        let query = (!is_empty).then(|| Query::of_all(namespace).after(after));
        let query = query.filter(|query| !query.is_void());
        let objects = query.map(|query| query.objects(&self.version));
        objects.into_iter().flatten()
    }

    /// Objects that are stored but cannot be served, in key order.
    pub fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.version.unreadable.values().map(|why| &**why)
    }

    /// The object at `key` if it is served.
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<&Arc<Entry>> {
        self.version.objects.get(key)
    }

    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.version.sequence
    }
}
