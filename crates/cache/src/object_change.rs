//! One change of one object, shared by the history and by all watchers that receive it. Corresponds to upstream's
//! `watchCacheEvent`.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rhumb_meta::{ObjectKey, Revision};

use crate::{CacheEntry, CorruptObject, ObjectProjector};

/// The type of a watch event (upstream: `watch.EventType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The object was created, or began to match the watcher's selectors.
    Added,
    Modified,
    /// The object was deleted, or no longer matches the watcher's selectors.
    Deleted,
}

impl EventKind {
    /// The `type` field of a watch event.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        }
    }

    /// The bytes before the object in a watch frame.
    pub(crate) const fn frame_start(self) -> &'static [u8] {
        match self {
            EventKind::Added => b"{\"type\":\"ADDED\",\"object\":",
            EventKind::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            EventKind::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        }
    }
}

/// Estimated memory of a change without its objects, including its share of the base contents kept per segment.
const CHANGE_BYTES: usize = 512;

/// The state of an object after a change.
#[derive(Debug, Clone)]
pub(crate) enum CachedObjectState {
    Absent,
    Present(Arc<CacheEntry>),
    /// Stored, but failed to decode: treated as absent by watches and lists.
    Corrupt(Arc<CorruptObject>),
}

impl CachedObjectState {
    pub(crate) fn entry(&self) -> Option<&Arc<CacheEntry>> {
        match self {
            CachedObjectState::Present(entry) => Some(entry),
            CachedObjectState::Absent | CachedObjectState::Corrupt(_) => None,
        }
    }
}

/// The transition of one object from its old to its new state.
#[derive(Debug)]
pub(crate) struct ObjectChange {
    /// Position in the order of all changes of the resource, without gaps.
    pub(crate) sequence: u64,
    pub(crate) revision: Revision,
    pub(crate) key: ObjectKey,
    /// The entry before the change, if the object was served.
    pub(crate) old: Option<Arc<CacheEntry>>,
    pub(crate) new: CachedObjectState,
    projector: Arc<dyn ObjectProjector>,
    /// The old object with the revision of the deletion, built for the first DELETED event.
    deleted_entry: OnceLock<Arc<CacheEntry>>,
    /// The ADDED frame of a modified object, for watchers whose selectors it began to match.
    added_frame: OnceLock<Bytes>,
    /// Further encodings of the event (protobuf, other versions), kept while the change is recent.
    encodings: Mutex<Vec<(Arc<str>, EventKind, Bytes)>>,
    /// No longer recent: further encodings are not kept.
    is_old: AtomicBool,
}

/// Encodings kept per event. There is one per media type and version, so few are expected.
const ENCODINGS_MAX: usize = 16;

impl ObjectChange {
    pub(crate) fn new(
        sequence: u64,
        revision: Revision,
        key: ObjectKey,
        old: Option<Arc<CacheEntry>>,
        new: CachedObjectState,
        projector: Arc<dyn ObjectProjector>,
    ) -> Self {
        ObjectChange {
            sequence,
            revision,
            key,
            old,
            new,
            projector,
            deleted_entry: OnceLock::new(),
            added_frame: OnceLock::new(),
            encodings: Mutex::default(),
            is_old: AtomicBool::new(false),
        }
    }

    /// The object that an event of this kind carries. `None` only for a kind that this change cannot have.
    pub(crate) fn entry_for(&self, kind: EventKind) -> Option<&Arc<CacheEntry>> {
        match kind {
            EventKind::Added | EventKind::Modified => self.new.entry(),
            EventKind::Deleted => {
                let old = self.old.as_ref()?;
                Some(self.deleted_entry.get_or_init(|| {
                    let json = self.projector.with_revision(old, self.revision);
                    Arc::new(old.to_deleted(self.revision, &json))
                }))
            }
        }
    }

    /// The watch frame of the event. Built once and shared by all watchers.
    pub(crate) fn frame(&self, kind: EventKind) -> Option<Bytes> {
        let entry = self.entry_for(kind)?;
        if kind == entry.kind() {
            return Some(entry.frame(kind));
        }
        Some(self.added_frame.get_or_init(|| entry.frame(kind)).clone())
    }

    /// The event in the encoding called `name`. `make` runs once per encoding while the change is recent.
    pub(crate) fn get_or_encode<E>(
        &self,
        name: &Arc<str>,
        kind: EventKind,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        // The lock is held while encoding, so that concurrent watchers do not encode the same event.
        let mut encodings = self.encodings.lock();
        let cached = encodings
            .iter()
            .find(|(other, of, _)| *of == kind && other == name);
        if let Some((_, _, bytes)) = cached {
            return Ok(bytes.clone());
        }
        let bytes = make()?;
        if encodings.len() < ENCODINGS_MAX && !self.is_old.load(Ordering::Relaxed) {
            encodings.push((Arc::clone(name), kind, bytes.clone()));
        }
        Ok(bytes)
    }

    /// Drops the cached encodings; later callers encode for themselves.
    pub(crate) fn drop_encodings(&self) {
        self.is_old.store(true, Ordering::Relaxed);
        // If it is locked, an encoder is running; the dispatcher must not wait for it.
        if let Some(mut encodings) = self.encodings.try_lock() {
            *encodings = Vec::new();
        }
    }

    /// Estimated bytes that the history retains for this change. A deletion retains the old object twice: as it was,
    /// and with the revision of the deletion.
    pub(crate) fn retained_bytes(&self) -> usize {
        let new = self.new.entry().map(|entry| entry.bytes());
        let deleted = || self.old.as_ref().map(|entry| 2 * entry.bytes());
        CHANGE_BYTES + new.or_else(deleted).unwrap_or_default()
    }
}
