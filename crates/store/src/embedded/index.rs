//! Where the versions of each key are: what the log does not tell without reading it all.
//!
//! The index is pure memory. It is filled from the log when the store is opened, and follows each write
//! once that is durable; so it never shows what a crash could take back.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use rhumb_meta::Revision;

use super::layout::Place;
use crate::types::prefix_end;
use crate::{Error, Key, Range, Result};

/// One state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) place: Place,
    /// Zero for a deletion.
    pub(super) created: u64,
}

impl Version {
    fn is_live(&self) -> bool {
        self.created != 0
    }
}

/// Most keys have one version, and then need no more room than that.
#[derive(Debug)]
struct Versions {
    latest: Version,
    /// Oldest first.
    older: VecDeque<Version>,
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
    /// In the order in which it becomes removable.
    garbage: VecDeque<Garbage>,
    revision: u64,
    compacted: u64,
}

impl Index {
    pub(super) fn new(revision: u64, compacted: u64) -> Self {
        Index {
            keys: BTreeMap::new(),
            garbage: VecDeque::new(),
            revision,
            compacted,
        }
    }

    pub(super) fn revision(&self) -> Revision {
        Revision::new(self.revision)
    }

    pub(super) fn compacted(&self) -> Revision {
        Revision::new(self.compacted)
    }

    /// Takes in a change. Changes come in the order of their places.
    pub(super) fn add(&mut self, key: &Key, version: Version) {
        let Version { place, .. } = version;
        let mut superseded = None;
        match self.keys.get_mut(key) {
            Some(versions) => {
                let before = std::mem::replace(&mut versions.latest, version);
                versions.older.push_back(before);
                // A deletion is in the garbage already.
                superseded = before.is_live().then_some(before.place);
            }
            None => {
                let older = VecDeque::new();
                let latest = version;
                self.keys
                    .insert(Key::clone(key), Versions { latest, older });
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
    }

    /// From now on the history begins here.
    pub(super) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision);
    }

    /// What can be removed, oldest first, at most `count`.
    pub(super) fn garbage(&self, count: usize) -> impl Iterator<Item = &Garbage> {
        let removable = |garbage: &&Garbage| garbage.superseded <= self.compacted;
        self.garbage.iter().take(count).take_while(removable)
    }

    /// Whether at least `count` versions can be removed.
    pub(super) fn has_garbage(&self, count: usize) -> bool {
        count
            .checked_sub(1)
            .and_then(|last| self.garbage.get(last))
            .is_some_and(|garbage| garbage.superseded <= self.compacted)
    }

    /// Forgets the first `count` of [`Index::garbage`], which have been removed from the log.
    pub(super) fn forget(&mut self, count: usize) {
        for garbage in self.garbage.drain(..count) {
            let Some(versions) = self.keys.get_mut(&garbage.key) else {
                continue;
            };
            if versions.latest.place == garbage.place {
                self.keys.remove(&garbage.key);
                continue;
            }
            // Versions go in the order in which they came.
            versions
                .older
                .pop_front_if(|oldest| oldest.place == garbage.place);
            if versions.older.is_empty() {
                versions.older = VecDeque::new();
            }
        }
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
    fn at(&self, revision: u64) -> Option<Version> {
        if self.latest.place.revision <= revision {
            return Some(self.latest);
        }
        let later = self
            .older
            .partition_point(|older| older.place.revision <= revision);
        later.checked_sub(1).map(|last| self.older[last])
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
        let place = Place {
            revision,
            position: 0,
        };
        index.add(&key.into(), Version { place, created });
    }

    fn at(index: &Index, revision: u64) -> Vec<(String, u64)> {
        index
            .range(&Range::prefix("/"), Revision::new(revision))
            .map(|(key, place)| (key.to_string(), place.revision))
            .collect()
    }

    fn sweep(index: &mut Index) -> Vec<u64> {
        let places: Vec<_> = index.garbage(100).map(|g| g.place.revision).collect();
        index.forget(places.len());
        places
    }

    #[test]
    fn every_revision_is_seen_until_it_is_compacted() {
        let mut index = Index::new(1, 0);
        put(&mut index, "/x", 2);
        put(&mut index, "/y", 3);
        put(&mut index, "/x", 4);
        add(&mut index, "/y", 5, 0);
        let (x, y) = ("/x".to_owned(), "/y".to_owned());
        assert_eq!(at(&index, 1), []);
        assert_eq!(at(&index, 3), [(x.clone(), 2), (y.clone(), 3)]);
        assert_eq!(at(&index, 4), [(x.clone(), 4), (y, 3)]);
        assert_eq!(at(&index, 5), [(x, 4)]);
        assert_eq!(sweep(&mut index), [0; 0]);
    }

    #[test]
    fn garbage_is_what_was_superseded_and_deletions_themselves() {
        let mut index = Index::new(1, 0);
        put(&mut index, "/x", 2);
        put(&mut index, "/x", 3);
        put(&mut index, "/y", 4);
        add(&mut index, "/y", 5, 0);
        put(&mut index, "/x", 6);
        index.compact(5);
        assert!(index.has_garbage(3) && !index.has_garbage(4));
        assert_eq!(sweep(&mut index), [2, 4, 5]);
        assert_eq!(at(&index, 5), [("/x".to_owned(), 3)]);
        assert_eq!(at(&index, 6), [("/x".to_owned(), 6)]);
        assert_eq!(index.keys.len(), 1);
    }

    #[test]
    fn a_key_that_came_back_survives_the_removal_of_its_deletion() {
        let mut index = Index::new(1, 0);
        put(&mut index, "/x", 2);
        add(&mut index, "/x", 3, 0);
        put(&mut index, "/x", 4);
        index.compact(4);
        assert_eq!(sweep(&mut index), [2, 3]);
        assert_eq!(at(&index, 4), [("/x".to_owned(), 4)]);
    }
}
