//! Where the versions of each key are: what the log does not tell without reading it all.
//!
//! The index is pure memory. It is filled from the log when the store is opened, and follows each write
//! once that is durable; so it never shows what a crash could take back.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rhumb_meta::Revision;

use super::log::{Place, deletion_bytes};
use crate::types::prefix_end;
use crate::{Error, Key, Range, Result};

/// The index, shared with readers. It shows only what is durable.
#[derive(Debug, Clone)]
pub(super) struct SharedIndex(Arc<RwLock<Index>>);

impl SharedIndex {
    pub(super) fn new(index: Index) -> Self {
        SharedIndex(Arc::new(RwLock::new(index)))
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) place: Place,
    /// Zero for a deletion.
    pub(super) created: u64,
}

impl Version {
    pub(super) fn is_live(&self) -> bool {
        self.created != 0
    }
}

/// Most keys have one version, and then need no more room than that.
#[derive(Debug)]
struct Versions {
    latest: Version,
    /// Oldest first.
    #[expect(
        clippy::box_collection,
        reason = "hardly any key has some, and all would have room for them"
    )]
    older: Option<Box<VecDeque<Version>>>,
    /// How many records the log has of the key, needed or not.
    records: u32,
}

/// A key that is gone, and of which the log still has records. As long as it has others, the deletion must stay
/// there as well, or the next start would take one of them for the latest.
#[derive(Debug, Clone, Copy)]
struct Ghost {
    records: u32,
    deletion: Place,
}

/// A version that nobody can ask for once the history begins at `superseded` or later.
#[derive(Debug)]
pub(super) struct Garbage {
    superseded: u64,
    pub(super) key: Key,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) struct Index {
    keys: BTreeMap<Key, Versions>,
    ghosts: HashMap<Key, Ghost>,
    /// What deletions take that only stay because of others, which nobody needs either.
    pinned_bytes: u64,
    /// In the order in which it becomes removable.
    garbage: VecDeque<Garbage>,
    revision: u64,
    compacted: u64,
}

impl Index {
    pub(super) fn new() -> Self {
        Index {
            keys: BTreeMap::new(),
            ghosts: HashMap::new(),
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

    /// Where the store is, and where its history begins.
    pub(super) fn bounds(&self) -> (Revision, Revision) {
        (self.revision(), self.compacted())
    }

    /// Takes in a change. Changes come in the order of their places. Answers which record may go from the log by
    /// that, if any.
    pub(super) fn add(&mut self, key: &Key, version: Version) -> Option<Place> {
        let Version { place, .. } = version;
        let (mut superseded, mut droppable) = (None, None);
        match self.keys.get_mut(key) {
            Some(versions) => {
                let before = versions.add(version);
                // A deletion is in the garbage already.
                superseded = before.is_live().then_some(before.place);
            }
            None => {
                let ghost = self.ghosts.remove(key);
                // As the last one that was left it may go already.
                if let Some(ghost) = ghost.filter(|ghost| ghost.records > 1) {
                    self.pinned_bytes -= deletion_bytes(key);
                    droppable = Some(ghost.deletion);
                }
                let versions = Versions {
                    latest: version,
                    older: None,
                    records: 1 + ghost.map_or(0, |ghost| ghost.records),
                };
                self.keys.insert(Key::clone(key), versions);
            }
        }
        // A deletion is worth remembering only as long as what it deleted.
        let itself = (!version.is_live()).then_some(place);
        for place_of_garbage in superseded.into_iter().chain(itself) {
            self.garbage.push_back(Garbage {
                superseded: place.revision,
                key: Key::clone(key),
                place: place_of_garbage,
            });
        }
        self.revision = self.revision.max(place.revision);
        droppable
    }

    /// The store is here, and its history begins there.
    pub(super) fn reached(&mut self, revision: u64, compacted: u64) {
        self.revision = self.revision.max(revision);
        self.compacted = self.compacted.max(compacted);
    }

    /// Whether there are versions that nobody can ask for any more.
    pub(super) fn has_garbage(&self) -> bool {
        let oldest = self.garbage.front();
        oldest.is_some_and(|garbage| garbage.superseded <= self.compacted)
    }

    /// Forgets versions that nobody can ask for any more, oldest first and at most `count`. Answers which records
    /// may go from the log by that.
    pub(super) fn forget(&mut self, count: usize) -> Vec<Place> {
        let mut droppable = Vec::new();
        for _ in 0..count {
            let compacted = self.compacted;
            let removable = |garbage: &mut Garbage| garbage.superseded <= compacted;
            let Some(garbage) = self.garbage.pop_front_if(removable) else {
                break;
            };
            droppable.extend(self.forget_one(garbage));
        }
        droppable
    }

    fn forget_one(&mut self, Garbage { key, place, .. }: Garbage) -> Option<Place> {
        let versions = self.keys.get_mut(&key)?;
        if versions.latest.place != place {
            versions.forget_oldest(place);
            return Some(place);
        }
        let ghost = Ghost {
            records: versions.records,
            deletion: place,
        };
        self.keys.remove(&key);
        let is_last = ghost.records == 1;
        if !is_last {
            self.pinned_bytes += deletion_bytes(&key);
        }
        // Also if only the deletion is left: it counts when the key comes back before it is gone.
        self.ghosts.insert(key, ghost);
        is_last.then_some(place)
    }

    /// Whether the log may do without a record, once it does without `dropped` other records of the key.
    pub(super) fn can_do_without(&self, key: &str, place: Place, dropped: u32) -> bool {
        if let Some(versions) = self.keys.get(key) {
            return !versions.hold(place);
        }
        let needed =
            |ghost: &Ghost| ghost.deletion == place && ghost.records.saturating_sub(dropped) > 1;
        !self.ghosts.get(key).is_some_and(needed)
    }

    /// The log does without so many records of the key. Answers the deletion that may go by that, if it is not
    /// gone already.
    pub(super) fn dropped(&mut self, key: &str, count: u32) -> Option<Place> {
        if let Some(versions) = self.keys.get_mut(key) {
            versions.records = versions.records.saturating_sub(count);
            return None;
        }
        let ghost = self.ghosts.get_mut(key)?;
        let was_pinned = ghost.records > 1;
        ghost.records = ghost.records.saturating_sub(count);
        let Ghost { records, deletion } = *ghost;
        if records == 0 {
            self.ghosts.remove(key);
        }
        let is_free = was_pinned && records <= 1;
        if is_free {
            self.pinned_bytes -= deletion_bytes(key);
        }
        (is_free && records == 1).then_some(deletion)
    }

    /// What deletions take that only stay because of others, which nobody needs either.
    pub(super) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// The current version of a key, unless it is deleted.
    pub(super) fn latest(&self, key: &str) -> Option<Version> {
        let versions = self.keys.get(key)?;
        Some(versions.latest).filter(Version::is_live)
    }

    /// Which revision a range is of: the one it asks for, if that can still and already be read.
    pub(super) fn revision_of(&self, range: &Range<'_>) -> Result<Revision> {
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

    /// The keys of a range at a revision, and where their values are.
    pub(super) fn range(
        &self,
        range: &Range<'_>,
        revision: Revision,
    ) -> impl Iterator<Item = (&Key, Place)> {
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
                version.is_live().then_some((key, version.place))
            })
    }
}

impl Versions {
    /// Answers the version that was the latest before.
    fn add(&mut self, version: Version) -> Version {
        let before = std::mem::replace(&mut self.latest, version);
        self.older.get_or_insert_default().push_back(before);
        self.records += 1;
        before
    }

    /// Versions go in the order in which they came.
    fn forget_oldest(&mut self, place: Place) {
        if let Some(older) = &mut self.older {
            older.pop_front_if(|oldest| oldest.place == place);
            if older.is_empty() {
                self.older = None;
            }
        }
    }

    fn hold(&self, place: Place) -> bool {
        let found = |older: &VecDeque<Version>| older.binary_search_by_key(&place, |it| it.place);
        self.latest.place == place || self.older.as_deref().is_some_and(|it| found(it).is_ok())
    }

    fn at(&self, revision: u64) -> Option<Version> {
        if self.latest.place.revision <= revision {
            return Some(self.latest);
        }
        let older = self.older.as_deref()?;
        let later = older.partition_point(|older| older.place.revision <= revision);
        let found = older[later.checked_sub(1)?];
        let next = older.get(later).copied().unwrap_or(self.latest);
        // A key that was created anew had been deleted. If the log no longer has the deletion, the history begins
        // after it.
        let deleted = found.is_live() && next.created == next.place.revision;
        (!deleted).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(index: &mut Index, key: &str, revision: u64) {
        let created = index
            .latest(key)
            .map_or(revision, |version| version.created);
        add(index, key, revision, created);
    }

    fn add(index: &mut Index, key: &str, revision: u64, created: u64) {
        let place = at_revision(revision);
        index.add(&key.into(), Version { place, created });
    }

    fn at(index: &Index, revision: u64) -> Vec<(String, u64)> {
        index
            .range(&Range::prefix("/"), Revision::new(revision))
            .map(|(key, place)| (key.to_string(), place.revision))
            .collect()
    }

    fn at_revision(revision: u64) -> Place {
        Place {
            revision,
            position: 0,
        }
    }

    /// Which records may go from the log once the history begins here.
    fn compact(index: &mut Index, revision: u64) -> Vec<u64> {
        index.reached(revision, revision);
        let droppable = index.forget(usize::MAX);
        assert!(!index.has_garbage());
        droppable.iter().map(|place| place.revision).collect()
    }

    #[test]
    fn every_revision_is_seen_until_it_is_compacted() {
        let mut index = Index::new();
        put(&mut index, "/x", 2);
        put(&mut index, "/y", 3);
        put(&mut index, "/x", 4);
        add(&mut index, "/y", 5, 0);
        let (x, y) = ("/x".to_owned(), "/y".to_owned());
        assert_eq!(at(&index, 1), []);
        assert_eq!(at(&index, 3), [(x.clone(), 2), (y.clone(), 3)]);
        assert_eq!(at(&index, 4), [(x.clone(), 4), (y, 3)]);
        assert_eq!(at(&index, 5), [(x, 4)]);
        assert!(!index.has_garbage() && index.forget(usize::MAX).is_empty());
    }

    #[test]
    fn garbage_is_what_was_superseded_and_deletions_themselves() {
        let mut index = Index::new();
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
    fn a_key_that_came_back_survives_the_removal_of_its_deletion() {
        let mut index = Index::new();
        put(&mut index, "/x", 2);
        add(&mut index, "/x", 3, 0);
        put(&mut index, "/x", 4);
        assert_eq!(compact(&mut index, 4), [2, 3]);
        assert_eq!(at(&index, 4), [("/x".to_owned(), 4)]);
    }

    /// Or what was deleted would come back with the next start.
    #[test]
    fn a_deletion_stays_in_the_log_as_long_as_what_it_deleted() {
        let mut index = Index::new();
        put(&mut index, "/x", 2);
        put(&mut index, "/x", 3);
        add(&mut index, "/x", 4, 0);
        assert_eq!(compact(&mut index, 4), [2, 3]);
        let (second, third, fourth) = (at_revision(2), at_revision(3), at_revision(4));
        assert!(index.can_do_without("/x", second, 0) && index.can_do_without("/x", third, 0));
        assert!(!index.can_do_without("/x", fourth, 1) && index.can_do_without("/x", fourth, 2));
        assert_eq!(index.dropped("/x", 1), None);
        assert!(!index.can_do_without("/x", fourth, 0));
        assert_eq!(index.dropped("/x", 1), Some(fourth));
        assert!(index.can_do_without("/x", fourth, 0));
        assert_eq!(index.dropped("/x", 1), None);
        assert!(index.ghosts.is_empty() && index.pinned_bytes() == 0);
    }

    /// A deletion that is alone in the log counts as long as it is there.
    #[test]
    fn a_deletion_that_is_left_alone_counts_when_the_key_comes_back() {
        let mut index = Index::new();
        add(&mut index, "/x", 2, 0);
        assert_eq!(compact(&mut index, 2), [2]);
        put(&mut index, "/x", 3);
        add(&mut index, "/x", 4, 0);
        assert_eq!(compact(&mut index, 4), [3]);
        assert_eq!(index.dropped("/x", 1), None, "the first deletion is gone");
        assert!(!index.can_do_without("/x", at_revision(4), 0));
        assert_eq!(index.dropped("/x", 1), Some(at_revision(4)));
    }

    #[test]
    fn a_key_that_was_created_anew_had_been_deleted() {
        let mut index = Index::new();
        put(&mut index, "/x", 2);
        // The log no longer has the deletion in between.
        add(&mut index, "/x", 9, 9);
        assert_eq!(at(&index, 8), []);
        assert_eq!(at(&index, 9), [("/x".to_owned(), 9)]);
    }

    #[test]
    fn a_deletion_may_go_when_the_key_comes_back() {
        let mut index = Index::new();
        put(&mut index, "/x", 2);
        add(&mut index, "/x", 3, 0);
        assert_eq!(compact(&mut index, 3), [2]);
        let version = Version {
            place: at_revision(4),
            created: 4,
        };
        assert_eq!(index.add(&"/x".into(), version), Some(at_revision(3)));
        assert!(index.can_do_without("/x", at_revision(3), 0));
        assert!(!index.can_do_without("/x", at_revision(4), 0));
        // All that the log still has of it counts when it is deleted again.
        add(&mut index, "/x", 5, 0);
        assert_eq!(compact(&mut index, 5), [4]);
        assert!(!index.can_do_without("/x", at_revision(5), 2));
        assert!(index.can_do_without("/x", at_revision(5), 3));
    }

    #[test]
    fn what_history_needs_stays_in_the_log() {
        let mut index = Index::new();
        for revision in 2..10 {
            put(&mut index, "/x", revision);
        }
        assert_eq!(compact(&mut index, 5), [2, 3, 4]);
        let needed = |revision| !index.can_do_without("/x", at_revision(revision), 0);
        assert!((5..10).all(needed) && !(2..5).any(needed));
    }
}
