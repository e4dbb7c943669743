//! In-memory index from keys to the log records of their versions (etcd: `mvcc` `treeIndex`).
//!
//! It is built from the log when the store is opened and updated after each durable write, so it never shows a write
//! that a crash could undo. It also decides which records the segment cleaner may drop.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use rhumb_meta::Revision;

use super::log::{RecordId, deletion_bytes};
use crate::entries::prefix_end;
use crate::{Error, Key, RangeRequest, Result};

/// The index, shared between committer, cleaner and readers.
#[derive(Debug, Clone)]
pub(super) struct SharedKeyIndex(Arc<RwLock<KeyIndex>>);

impl SharedKeyIndex {
    pub(super) fn new(index: KeyIndex) -> Self {
        SharedKeyIndex(Arc::new(RwLock::new(index)))
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, KeyIndex> {
        self.0.read()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, KeyIndex> {
        self.0.write()
    }
}

/// One version of a key: the record that wrote or deleted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyVersion {
    pub(super) record_id: RecordId,
    /// Zero for a deletion.
    pub(super) created: u64,
}

impl KeyVersion {
    pub(super) fn is_live(&self) -> bool {
        self.created != 0
    }
}

/// The versions of one key. Most keys have only one, so older versions are allocated separately.
#[derive(Debug)]
struct KeyVersions {
    latest: KeyVersion,
    /// Oldest first.
    #[expect(
        clippy::box_collection,
        reason = "few keys have older versions, and an unboxed VecDeque would enlarge every key"
    )]
    older: Option<Box<VecDeque<KeyVersion>>>,
    /// How many records of the key are in the log, live or dead.
    records: u32,
}

/// A deleted key of which the log still has records. While it has other records than the deletion, the deletion must
/// stay in the log as well, or the next start would take one of them for the latest version.
#[derive(Debug, Clone, Copy)]
struct Tombstone {
    records: u32,
    deletion_record: RecordId,
}

/// A version that is unreachable once the store is compacted to `superseded` or later.
#[derive(Debug)]
pub(super) struct GarbageVersion {
    superseded_at: u64,
    pub(super) key: Key,
    pub(super) record_id: RecordId,
}

#[derive(Debug)]
pub(super) struct KeyIndex {
    keys: BTreeMap<Key, KeyVersions>,
    tombstones: HashMap<Key, Tombstone>,
    /// The size of deletion records that stay only because dead records of the same key are still in the log.
    pinned_bytes: u64,
    /// Ordered by the revision at which the versions become unreachable.
    garbage: VecDeque<GarbageVersion>,
    revision: u64,
    compacted: u64,
}

impl KeyIndex {
    pub(super) fn new() -> Self {
        KeyIndex {
            keys: BTreeMap::new(),
            tombstones: HashMap::new(),
            pinned_bytes: 0,
            garbage: VecDeque::new(),
            revision: 0,
            compacted: 0,
        }
    }

    pub(super) fn revision(&self) -> Revision {
        Revision::new(self.revision)
    }

    pub(super) fn compacted(&self) -> Revision {
        Revision::new(self.compacted)
    }

    /// The current revision and the compaction revision.
    pub(super) fn revision_bounds(&self) -> (Revision, Revision) {
        (self.revision(), self.compacted())
    }

    /// Adds a version. Versions must be added in the order of their record ids. Returns the record that may be dropped
    /// from the log because of it, if any.
    pub(super) fn add(&mut self, key: &Key, version: KeyVersion) -> Option<RecordId> {
        let KeyVersion { record_id, .. } = version;
        let (mut superseded, mut droppable) = (None, None);
        match self.keys.get_mut(key) {
            Some(versions) => {
                let before = versions.add(version);
                // A deletion is already queued as garbage.
                superseded = before.is_live().then_some(before.record_id);
            }
            None => {
                let tombstone = self.tombstones.remove(key);
                // If the deletion is the only record left, it is already droppable.
                if let Some(tombstone) = tombstone.filter(|tombstone| tombstone.records > 1) {
                    self.pinned_bytes -= deletion_bytes(key);
                    droppable = Some(tombstone.deletion_record);
                }
                let versions = KeyVersions {
                    latest: version,
                    older: None,
                    records: 1 + tombstone.map_or(0, |tombstone| tombstone.records),
                };
                self.keys.insert(Key::clone(key), versions);
            }
        }
        // A deletion becomes garbage together with the version that it deleted.
        let itself = (!version.is_live()).then_some(record_id);
        for garbage_id in superseded.into_iter().chain(itself) {
            self.garbage.push_back(GarbageVersion {
                superseded_at: record_id.revision,
                key: Key::clone(key),
                record_id: garbage_id,
            });
        }
        self.revision = self.revision.max(record_id.revision);
        droppable
    }

    /// Advances the current revision and the compaction revision.
    pub(super) fn advance_revisions(&mut self, revision: u64, compacted: u64) {
        self.revision = self.revision.max(revision);
        self.compacted = self.compacted.max(compacted);
    }

    /// Whether there are unreachable versions to prune.
    pub(super) fn has_garbage(&self) -> bool {
        let oldest = self.garbage.front();
        oldest.is_some_and(|garbage| garbage.superseded_at <= self.compacted)
    }

    /// Prunes at most `count` unreachable versions, oldest first. Returns the records that may be dropped from the log
    /// because of it.
    pub(super) fn prune(&mut self, count: usize) -> Vec<RecordId> {
        let mut droppable = Vec::new();
        for _ in 0..count {
            let compacted = self.compacted;
            let removable = |garbage: &mut GarbageVersion| garbage.superseded_at <= compacted;
            let Some(garbage) = self.garbage.pop_front_if(removable) else {
                break;
            };
            droppable.extend(self.prune_one(garbage));
        }
        droppable
    }

    fn prune_one(
        &mut self,
        GarbageVersion { key, record_id, .. }: GarbageVersion,
    ) -> Option<RecordId> {
        let versions = self.keys.get_mut(&key)?;
        if versions.latest.record_id != record_id {
            versions.remove_oldest(record_id);
            return Some(record_id);
        }
        let tombstone = Tombstone {
            records: versions.records,
            deletion_record: record_id,
        };
        self.keys.remove(&key);
        let is_last = tombstone.records == 1;
        if !is_last {
            self.pinned_bytes += deletion_bytes(&key);
        }
        // Also if only the deletion is left: its record counts if the key is created again before it is dropped.
        self.tombstones.insert(key, tombstone);
        is_last.then_some(record_id)
    }

    /// Whether a record may be dropped from the log, given that `dropped` other records of the key are dropped too.
    pub(super) fn is_droppable(&self, key: &str, record_id: RecordId, dropped: u32) -> bool {
        if let Some(versions) = self.keys.get(key) {
            return !versions.contains(record_id);
        }
        let needed = |tombstone: &Tombstone| {
            tombstone.deletion_record == record_id && tombstone.records.saturating_sub(dropped) > 1
        };
        !self.tombstones.get(key).is_some_and(needed)
    }

    /// Notes that `count` records of the key were dropped from the log. Returns the deletion record that may be dropped
    /// because of it, if it is still in the log.
    pub(super) fn records_dropped(&mut self, key: &str, count: u32) -> Option<RecordId> {
        if let Some(versions) = self.keys.get_mut(key) {
            versions.records = versions.records.saturating_sub(count);
            return None;
        }
        let tombstone = self.tombstones.get_mut(key)?;
        let was_pinned = tombstone.records > 1;
        tombstone.records = tombstone.records.saturating_sub(count);
        let Tombstone {
            records,
            deletion_record: deletion,
        } = *tombstone;
        if records == 0 {
            self.tombstones.remove(key);
        }
        let is_free = was_pinned && records <= 1;
        if is_free {
            self.pinned_bytes -= deletion_bytes(key);
        }
        (is_free && records == 1).then_some(deletion)
    }

    /// The size of deletion records that stay only because dead records of the same key are still in the log.
    pub(super) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// The latest version of a key, unless it is deleted.
    pub(super) fn latest(&self, key: &str) -> Option<KeyVersion> {
        let versions = self.keys.get(key)?;
        Some(versions.latest).filter(KeyVersion::is_live)
    }

    /// The revision to read a range at. Fails if the requested revision is compacted or in the future.
    pub(super) fn resolve_revision(&self, range: &RangeRequest<'_>) -> Result<Revision> {
        let (current, oldest) = (self.revision(), self.compacted());
        match range.at {
            Some(requested) if requested > current => {
                Err(Error::FutureRevision { requested, current })
            }
            Some(requested) if requested < oldest => Err(Error::Compacted { requested, oldest }),
            Some(requested) => Ok(requested),
            None => Ok(current),
        }
    }

    /// The keys of a range that exist at a revision, with the records of their values.
    pub(super) fn range(
        &self,
        range: &RangeRequest<'_>,
        revision: Revision,
    ) -> impl Iterator<Item = (&Key, RecordId)> {
        let end = prefix_end(range.prefix.as_bytes());
        let start = match range.after {
            Some(after) if after >= range.prefix => Bound::Excluded(after),
            _ => Bound::Included(range.prefix),
        };
        self.keys
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(move |(key, _)| end.as_ref().is_none_or(|end| key.as_bytes() < &end[..]))
            .filter_map(move |(key, versions)| {
                let version = versions.at(revision.get())?;
                version.is_live().then_some((key, version.record_id))
            })
    }
}

impl KeyVersions {
    /// Adds a version and returns the previous latest one.
    fn add(&mut self, version: KeyVersion) -> KeyVersion {
        let before = std::mem::replace(&mut self.latest, version);
        self.older.get_or_insert_default().push_back(before);
        self.records += 1;
        before
    }

    /// Removes the oldest version. Versions are pruned in the order in which they were added.
    fn remove_oldest(&mut self, record_id: RecordId) {
        if let Some(older) = &mut self.older {
            older.pop_front_if(|oldest| oldest.record_id == record_id);
            if older.is_empty() {
                self.older = None;
            }
        }
    }

    fn contains(&self, record_id: RecordId) -> bool {
        let found = |older: &VecDeque<KeyVersion>| {
            older.binary_search_by_key(&record_id, |it| it.record_id)
        };
        self.latest.record_id == record_id
            || self.older.as_deref().is_some_and(|it| found(it).is_ok())
    }

    fn at(&self, revision: u64) -> Option<KeyVersion> {
        if self.latest.record_id.revision <= revision {
            return Some(self.latest);
        }
        let older = self.older.as_deref()?;
        let later = older.partition_point(|older| older.record_id.revision <= revision);
        let found = older[later.checked_sub(1)?];
        let next = older.get(later).copied().unwrap_or(self.latest);
        // A key that was created again had been deleted before. If the log no longer has the deletion, it was
        // compacted.
        let deleted = found.is_live() && next.created == next.record_id.revision;
        (!deleted).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(index: &mut KeyIndex, key: &str, revision: u64) {
        let created = index
            .latest(key)
            .map_or(revision, |version| version.created);
        add(index, key, revision, created);
    }

    fn add(index: &mut KeyIndex, key: &str, revision: u64, created: u64) {
        let record_id = at_revision(revision);
        index.add(&key.into(), KeyVersion { record_id, created });
    }

    fn at(index: &KeyIndex, revision: u64) -> Vec<(String, u64)> {
        index
            .range(&RangeRequest::prefix("/"), Revision::new(revision))
            .map(|(key, record_id)| (key.to_string(), record_id.revision))
            .collect()
    }

    fn at_revision(revision: u64) -> RecordId {
        RecordId {
            revision,
            position: 0,
        }
    }

    /// Compacts to a revision and returns the revisions of the records that may be dropped.
    fn compact(index: &mut KeyIndex, revision: u64) -> Vec<u64> {
        index.advance_revisions(revision, revision);
        let droppable = index.prune(usize::MAX);
        assert!(!index.has_garbage());
        droppable
            .iter()
            .map(|record_id| record_id.revision)
            .collect()
    }

    #[test]
    fn every_revision_is_readable_until_compacted() {
        let mut index = KeyIndex::new();
        put(&mut index, "/x", 2);
        put(&mut index, "/y", 3);
        put(&mut index, "/x", 4);
        add(&mut index, "/y", 5, 0);
        let (x, y) = ("/x".to_owned(), "/y".to_owned());
        assert_eq!(at(&index, 1), []);
        assert_eq!(at(&index, 3), [(x.clone(), 2), (y.clone(), 3)]);
        assert_eq!(at(&index, 4), [(x.clone(), 4), (y, 3)]);
        assert_eq!(at(&index, 5), [(x, 4)]);
        assert!(!index.has_garbage() && index.prune(usize::MAX).is_empty());
    }

    #[test]
    fn superseded_versions_and_deletions_are_garbage() {
        let mut index = KeyIndex::new();
        put(&mut index, "/x", 2);
        put(&mut index, "/x", 3);
        put(&mut index, "/y", 4);
        add(&mut index, "/y", 5, 0);
        put(&mut index, "/x", 6);
        assert_eq!(compact(&mut index, 5), [2, 4]);
        assert_eq!(at(&index, 5), [("/x".to_owned(), 3)]);
        assert_eq!(at(&index, 6), [("/x".to_owned(), 6)]);
        assert_eq!(index.keys.len(), 1);
    }

    #[test]
    fn a_recreated_key_survives_removal_of_its_deletion() {
        let mut index = KeyIndex::new();
        put(&mut index, "/x", 2);
        add(&mut index, "/x", 3, 0);
        put(&mut index, "/x", 4);
        assert_eq!(compact(&mut index, 4), [2, 3]);
        assert_eq!(at(&index, 4), [("/x".to_owned(), 4)]);
    }

    /// Otherwise the deleted version would reappear after a restart.
    #[test]
    fn a_deletion_stays_in_the_log_as_long_as_the_deleted_versions() {
        let mut index = KeyIndex::new();
        put(&mut index, "/x", 2);
        put(&mut index, "/x", 3);
        add(&mut index, "/x", 4, 0);
        assert_eq!(compact(&mut index, 4), [2, 3]);
        let (second, third, fourth) = (at_revision(2), at_revision(3), at_revision(4));
        assert!(index.is_droppable("/x", second, 0) && index.is_droppable("/x", third, 0));
        assert!(!index.is_droppable("/x", fourth, 1) && index.is_droppable("/x", fourth, 2));
        assert_eq!(index.records_dropped("/x", 1), None);
        assert!(!index.is_droppable("/x", fourth, 0));
        assert_eq!(index.records_dropped("/x", 1), Some(fourth));
        assert!(index.is_droppable("/x", fourth, 0));
        assert_eq!(index.records_dropped("/x", 1), None);
        assert!(index.tombstones.is_empty() && index.pinned_bytes() == 0);
    }

    /// A deletion that is the only record of its key still counts as a record.
    #[test]
    fn a_sole_deletion_record_is_counted_when_the_key_is_recreated() {
        let mut index = KeyIndex::new();
        add(&mut index, "/x", 2, 0);
        assert_eq!(compact(&mut index, 2), [2]);
        put(&mut index, "/x", 3);
        add(&mut index, "/x", 4, 0);
        assert_eq!(compact(&mut index, 4), [3]);
        assert_eq!(
            index.records_dropped("/x", 1),
            None,
            "the first deletion was dropped"
        );
        assert!(!index.is_droppable("/x", at_revision(4), 0));
        assert_eq!(index.records_dropped("/x", 1), Some(at_revision(4)));
    }

    #[test]
    fn a_recreated_key_implies_an_earlier_deletion() {
        let mut index = KeyIndex::new();
        put(&mut index, "/x", 2);
        // The log no longer has the deletion in between.
        add(&mut index, "/x", 9, 9);
        assert_eq!(at(&index, 8), []);
        assert_eq!(at(&index, 9), [("/x".to_owned(), 9)]);
    }

    #[test]
    fn a_deletion_is_droppable_when_the_key_is_recreated() {
        let mut index = KeyIndex::new();
        put(&mut index, "/x", 2);
        add(&mut index, "/x", 3, 0);
        assert_eq!(compact(&mut index, 3), [2]);
        let version = KeyVersion {
            record_id: at_revision(4),
            created: 4,
        };
        assert_eq!(index.add(&"/x".into(), version), Some(at_revision(3)));
        assert!(index.is_droppable("/x", at_revision(3), 0));
        assert!(!index.is_droppable("/x", at_revision(4), 0));
        // All records still in the log count when the key is deleted again.
        add(&mut index, "/x", 5, 0);
        assert_eq!(compact(&mut index, 5), [4]);
        assert!(!index.is_droppable("/x", at_revision(5), 2));
        assert!(index.is_droppable("/x", at_revision(5), 3));
    }

    #[test]
    fn versions_needed_for_history_are_not_droppable() {
        let mut index = KeyIndex::new();
        for revision in 2..10 {
            put(&mut index, "/x", revision);
        }
        assert_eq!(compact(&mut index, 5), [2, 3, 4]);
        let needed = |revision| !index.is_droppable("/x", at_revision(revision), 0);
        assert!((5..10).all(needed) && !(2..5).any(needed));
    }
}
