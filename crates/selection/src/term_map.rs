//! A hash map keyed by partition and term. Lookups compare pointers and do not touch reference counts.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::IndexTerm;
use crate::hashing::FxIdHasher;
use crate::interner::InternedString;

/// Values by partition and term.
pub(crate) struct TermMap<P, V> {
    /// One table per kind of term, so that lookups of rare kinds stay in a small table.
    tables: Vec<HashTable<TermEntry<P, V>>>,
}

/// Owns the strings of its term, so that their addresses stay unique.
struct TermEntry<P, V> {
    partition: P,
    strings: [Option<InternedString>; 2],
    value: V,
}

/// A partition, owned or borrowed, with its hash, which is computed once for all terms of a lookup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionKey<Q> {
    partition: Q,
    hasher: FxIdHasher,
}

impl<Q> PartitionKey<Q> {
    #[inline]
    pub(crate) fn new<P: Hash>(partition: Q) -> Self
    where
        Q: Borrow<P>,
    {
        let mut hasher = FxIdHasher::default();
        partition.borrow().hash(&mut hasher);
        PartitionKey { partition, hasher }
    }

    #[inline]
    fn hash(&self, addresses: [usize; 2]) -> u64 {
        let mut hasher = self.hasher;
        hasher.write_usize(addresses[0]);
        hasher.write_usize(addresses[1]);
        hasher.finish()
    }
}

#[inline]
fn addresses<S: Borrow<InternedString>>(strings: &[Option<S>; 2]) -> [usize; 2] {
    let address = |symbol: &Option<S>| symbol.as_ref().map_or(0, |text| text.borrow().address());
    [address(&strings[0]), address(&strings[1])]
}

impl<P: Eq + Hash, V> TermEntry<P, V> {
    fn hash(&self) -> u64 {
        PartitionKey::new::<P>(&self.partition).hash(addresses(&self.strings))
    }

    #[inline]
    fn has_key(&self, partition: &P, term_addresses: [usize; 2]) -> bool {
        addresses(&self.strings) == term_addresses && self.partition == *partition
    }
}

impl<P: Clone + Eq + Hash, V> TermMap<P, V> {
    #[inline]
    pub(crate) fn get<Q: Borrow<P>>(
        &self,
        key: &PartitionKey<Q>,
        term: IndexTerm<'_>,
    ) -> Option<&V> {
        let table = self.tables.get(term.kind())?;
        if table.is_empty() {
            return None;
        }
        let addresses = addresses(&term.strings());
        let entry = table.find(key.hash(addresses), |entry| {
            entry.has_key(key.partition.borrow(), addresses)
        });
        entry.map(|entry| &entry.value)
    }

    /// Whether there is any entry of this kind of term.
    #[inline]
    pub(crate) fn has_kind(&self, kind: usize) -> bool {
        self.tables.get(kind).is_some_and(|table| !table.is_empty())
    }

    /// Calls `update` with the value of a term, or inserts a new value.
    pub(crate) fn upsert(
        &mut self,
        partition: &P,
        term: IndexTerm<'_>,
        update: impl FnOnce(&mut V),
        new: impl FnOnce() -> V,
    ) {
        let (kind, strings) = (term.kind(), term.strings());
        if self.tables.len() <= kind {
            self.tables.resize_with(kind + 1, HashTable::new);
        }
        let addresses = addresses(&strings);
        let hash = PartitionKey::new::<P>(partition).hash(addresses);
        let has_key = |entry: &TermEntry<P, V>| entry.has_key(partition, addresses);
        match self.tables[kind].entry(hash, has_key, TermEntry::hash) {
            Entry::Occupied(mut entry) => update(&mut entry.get_mut().value),
            Entry::Vacant(free) => {
                free.insert(TermEntry {
                    partition: partition.clone(),
                    strings: strings.map(Option::<&InternedString>::cloned),
                    value: new(),
                });
            }
        }
    }

    /// Calls `update` with the value of a term. Removes the entry if it returns `true`.
    pub(crate) fn update_or_remove(
        &mut self,
        partition: &P,
        term: IndexTerm<'_>,
        update: impl FnOnce(&mut V) -> bool,
    ) {
        let Some(table) = self.tables.get_mut(term.kind()) else {
            return;
        };
        let addresses = addresses(&term.strings());
        let hash = PartitionKey::new::<P>(partition).hash(addresses);
        let has_key = |entry: &TermEntry<P, V>| entry.has_key(partition, addresses);
        if let Ok(mut entry) = table.find_entry(hash, has_key)
            && update(&mut entry.get_mut().value)
        {
            entry.remove();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(HashTable::is_empty)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[Option<InternedString>; 2], &V)> {
        let entries = self.tables.iter().flatten();
        entries.map(|entry| (&entry.strings, &entry.value))
    }
}

impl<P, V> Default for TermMap<P, V> {
    fn default() -> Self {
        TermMap { tables: Vec::new() }
    }
}

impl<P: fmt::Debug, V: fmt::Debug> fmt::Debug for TermMap<P, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.tables.iter().flatten();
        let entries = entries.map(|entry| ((&entry.partition, &entry.strings), &entry.value));
        formatter.debug_map().entries(entries).finish()
    }
}
