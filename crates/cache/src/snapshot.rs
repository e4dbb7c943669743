//! All objects of a resource as of one revision, in persistent maps: copies share memory. Corresponds to upstream's
//! `storeSnapshotter`.

use std::sync::Arc;

use imbl::OrdMap;
use rhumb_meta::{ObjectKey, Revision};

use crate::index::{AttributeIndex, SelectorQuery};
use crate::object_change::{CachedObjectState, ObjectChange};
use crate::{CacheEntry, CorruptObject};

/// The objects after one change, with their indexes. Clones share memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct CacheContents {
    /// Of the last change applied to this resource.
    pub(crate) revision: Revision,
    /// Sequence of the next change.
    pub(crate) next_sequence: u64,
    pub(crate) objects: OrdMap<ObjectKey, Arc<CacheEntry>>,
    pub(crate) corrupt: OrdMap<ObjectKey, Arc<CorruptObject>>,
    /// Only the latest contents have indexes; past contents have none.
    pub(crate) indexes: Arc<Vec<AttributeIndex>>,
    /// Total bytes of all frames.
    pub(crate) bytes: usize,
}

impl CacheContents {
    pub(crate) fn get(&self, key: &ObjectKey) -> Result<Option<&Arc<CacheEntry>>, CorruptObject> {
        match self.corrupt.get(key) {
            Some(corrupt) => Err(CorruptObject::clone(corrupt)),
            None => Ok(self.objects.get(key)),
        }
    }

    /// The same objects without indexes, for the history. While a copy with indexes is kept, every change would have
    /// to copy index nodes.
    pub(crate) fn without_indexes(&self) -> Self {
        CacheContents {
            indexes: Arc::default(),
            ..self.clone()
        }
    }

    /// Replaces the indexes by empty copies of `indexes`, filled with the objects of this version.
    pub(crate) fn rebuild_indexes(&mut self, indexes: &[AttributeIndex]) {
        let filled = indexes
            .iter()
            .map(|index| index.refilled(self.objects.values()));
        self.indexes = Arc::new(filled.collect());
    }

    pub(crate) fn apply(&mut self, change: &ObjectChange) {
        self.set(&change.key, change.new.clone());
        self.revision = change.revision;
        self.next_sequence = change.sequence + 1;
    }

    pub(crate) fn set(&mut self, key: &ObjectKey, state: CachedObjectState) {
        if !self.corrupt.is_empty() {
            self.corrupt.remove(key);
        }
        let new = state.entry().cloned();
        let old = match state {
            CachedObjectState::Present(entry) => {
                self.bytes += entry.bytes();
                self.objects.insert(key.clone(), entry)
            }
            CachedObjectState::Absent => self.objects.remove(key),
            CachedObjectState::Corrupt(corrupt) => {
                self.corrupt.insert(key.clone(), corrupt);
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

/// All objects of a resource as of one revision. Immutable; clones share memory.
#[derive(Debug, Clone)]
pub struct CacheSnapshot {
    revision: Revision,
    contents: CacheContents,
}

impl CacheSnapshot {
    pub(crate) fn new(revision: Revision, contents: CacheContents) -> Self {
        CacheSnapshot { revision, contents }
    }

    /// The revision of the snapshot. A watch that starts after it continues without gap or repeat.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.contents.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.contents.objects.is_empty()
    }

    /// The object at `key`, if there is one.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<&Arc<CacheEntry>>, CorruptObject> {
        self.contents.get(key)
    }

    /// The objects in key order (the order of list pages), optionally limited to one namespace and to keys after
    /// `after`. Seeking to the start takes logarithmic time.
    ///
    /// Corrupt objects are omitted; see [`CacheSnapshot::corrupt`].
    pub fn range<'a>(
        &'a self,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = &'a Arc<CacheEntry>> + use<'a> {
        let is_empty = self.contents.objects.is_empty();
        let query = (!is_empty).then(|| SelectorQuery::everything_in(namespace).after(after));
        let query = query.filter(|query| !query.is_empty_range());
        let objects = query.map(|query| query.objects(&self.contents));
        objects.into_iter().flatten()
    }

    /// Stored objects that failed to decode, in key order.
    pub fn corrupt(&self) -> impl Iterator<Item = &CorruptObject> {
        self.contents.corrupt.values().map(|corrupt| &**corrupt)
    }

    /// The object at `key`, ignoring corrupt ones.
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<&Arc<CacheEntry>> {
        self.contents.objects.get(key)
    }

    pub(crate) fn contents(&self) -> &CacheContents {
        &self.contents
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.contents.next_sequence
    }
}
