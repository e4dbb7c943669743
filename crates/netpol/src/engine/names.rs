//! Finds pods and policies by their names.

use std::hash::BuildHasher;

use super::hashing::{IdMap, Secret};
use crate::Name;

/// By hashes of names alone. The names are where the things are, and are not read again when the table grows.
#[derive(Debug)]
pub(crate) struct Names<I> {
    by_hash: IdMap<u64, I>,
    /// Those with a hash that another had before: hardly ever any.
    others: Vec<I>,
    secret: Secret,
}

impl<I> Default for Names<I> {
    fn default() -> Self {
        Names {
            by_hash: IdMap::default(),
            others: Vec::new(),
            secret: Secret::default(),
        }
    }
}

impl<I: Copy + Eq> Names<I> {
    /// `is_named` tells whether something has the name.
    pub(crate) fn find(&self, name: &Name, is_named: impl Fn(I) -> bool) -> Option<I> {
        let first = self.by_hash.get(&self.secret.hash_one(name));
        let mut candidates = first.into_iter().chain(&self.others).copied();
        candidates.find(|id| is_named(*id))
    }

    /// Nothing has the name yet.
    pub(crate) fn insert(&mut self, name: &Name, id: I) {
        let first = *self.by_hash.entry(self.secret.hash_one(name)).or_insert(id);
        if first != id {
            self.others.push(id);
        }
    }

    pub(crate) fn remove(&mut self, name: &Name, id: I) {
        let hash = self.secret.hash_one(name);
        if self.by_hash.get(&hash) == Some(&id) {
            self.by_hash.remove(&hash);
        } else {
            self.others.retain(|other| *other != id);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = I> {
        self.by_hash.values().chain(&self.others).copied()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_hash.is_empty() && self.others.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_the_same_hash_are_told_apart() {
        let names = ["a", "b", "c"].map(|name| Name::new("shop", name));
        let mut table: Names<usize> = Names::default();
        let hash = table.secret.hash_one(&names[2]);
        // Another has the place of the last already.
        table.by_hash.insert(hash, 0);
        table.insert(&names[1], 1);
        table.insert(&names[2], 2);
        let find = |table: &Names<usize>, at: usize| table.find(&names[at], |id| id == at);
        assert_eq!((find(&table, 1), find(&table, 2)), (Some(1), Some(2)));
        table.by_hash.remove(&hash);
        assert_eq!(find(&table, 2), Some(2), "it stays where it is");
        let mut ids: Vec<usize> = table.ids().collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2]);
        table.remove(&names[2], 2);
        table.remove(&names[1], 1);
        assert!(table.is_empty());
    }
}
