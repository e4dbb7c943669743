//! Finds the ids of pods and policies by name.

use std::hash::BuildHasher;

use rhumb_selection::{IdMap, UntrustedKeyHasherBuilder};

use crate::NamespacedName;

/// Maps hashes of names to ids. The names are stored in the records only, and are not rehashed when the map grows.
#[derive(Debug)]
pub(crate) struct NameIndex<I> {
    by_hash: IdMap<u64, I>,
    /// Ids whose hash was already taken by another name; almost always empty.
    hash_collisions: Vec<I>,
    hasher_builder: UntrustedKeyHasherBuilder,
}

impl<I> Default for NameIndex<I> {
    fn default() -> Self {
        NameIndex {
            by_hash: IdMap::default(),
            hash_collisions: Vec::new(),
            hasher_builder: UntrustedKeyHasherBuilder::default(),
        }
    }
}

impl<I: Copy + Eq> NameIndex<I> {
    /// `is_named` checks whether the record of an id has the name.
    pub(crate) fn find(&self, name: &NamespacedName, is_named: impl Fn(I) -> bool) -> Option<I> {
        let first = self.by_hash.get(&self.hasher_builder.hash_one(name));
        let mut candidates = first.into_iter().chain(&self.hash_collisions).copied();
        candidates.find(|id| is_named(*id))
    }

    /// The name must not be in the index yet.
    pub(crate) fn insert(&mut self, name: &NamespacedName, id: I) {
        let first = *self
            .by_hash
            .entry(self.hasher_builder.hash_one(name))
            .or_insert(id);
        if first != id {
            self.hash_collisions.push(id);
        }
    }

    pub(crate) fn remove(&mut self, name: &NamespacedName, id: I) {
        let hash = self.hasher_builder.hash_one(name);
        if self.by_hash.get(&hash) == Some(&id) {
            self.by_hash.remove(&hash);
        } else {
            self.hash_collisions.retain(|other| *other != id);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = I> {
        self.by_hash.values().chain(&self.hash_collisions).copied()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_hash.is_empty() && self.hash_collisions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_equal_hashes_are_distinguished() {
        let names = ["a", "b", "c"].map(|name| NamespacedName::new("shop", name));
        let mut table: NameIndex<usize> = NameIndex::default();
        let hash = table.hasher_builder.hash_one(&names[2]);
        // Simulate a collision: another id already occupies the hash of the last name.
        table.by_hash.insert(hash, 0);
        table.insert(&names[1], 1);
        table.insert(&names[2], 2);
        let find = |table: &NameIndex<usize>, at: usize| table.find(&names[at], |id| id == at);
        assert_eq!((find(&table, 1), find(&table, 2)), (Some(1), Some(2)));
        table.by_hash.remove(&hash);
        assert_eq!(
            find(&table, 2),
            Some(2),
            "a collided id stays in the overflow list"
        );
        let mut ids: Vec<usize> = table.ids().collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2]);
        table.remove(&names[2], 2);
        table.remove(&names[1], 1);
        assert!(table.is_empty());
    }
}
