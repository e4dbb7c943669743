//! A hash map keyed by partition and term. Lookups compare pointers and do not touch reference counts.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::Term;
use crate::hashing::IdHasher;
use crate::interner::Symbol;

/// Values by partition and term.
pub(crate) struct TermMap<P, V> {
    entries: HashTable<TermEntry<P, V>>,
    /// The number of entries of each kind of term. Lookups of kinds without entries end here.
    entries_by_kind: Vec<usize>,
}

/// Owns the strings of its term, so that their addresses stay unique.
struct TermEntry<P, V> {
    partition: P,
    kind: u32,
    symbols: [Option<Symbol>; 2],
    value: V,
}

/// A partition, owned or borrowed, with its hash, which is computed once for all terms of a lookup.
#[derive(Debug)]
pub(crate) struct PartitionKey<Q> {
    partition: Q,
    hasher: IdHasher,
}

impl<Q> PartitionKey<Q> {
    #[inline]
    pub(crate) fn new<P: Hash>(partition: Q) -> Self
    where
        Q: Borrow<P>,
    {
        let mut hasher = IdHasher::default();
        partition.borrow().hash(&mut hasher);
        PartitionKey { partition, hasher }
    }

    #[inline]
    fn hash(&self, kind: usize, addresses: [usize; 2]) -> u64 {
        let mut hasher = self.hasher;
        // Kinds are so few that they fit into the bits that the alignment of the strings leaves.
        hasher.write_usize(addresses[0] ^ kind);
        hasher.write_usize(addresses[1]);
        hasher.finish()
    }
}

#[inline]
fn addresses<S: Borrow<Symbol>>(symbols: &[Option<S>; 2]) -> [usize; 2] {
    let address = |symbol: &Option<S>| symbol.as_ref().map_or(0, |text| text.borrow().address());
    [address(&symbols[0]), address(&symbols[1])]
}

impl<P: Eq + Hash, V> TermEntry<P, V> {
    fn hash(&self) -> u64 {
        PartitionKey::new::<P>(&self.partition).hash(self.kind as usize, addresses(&self.symbols))
    }

    #[inline]
    fn has_key(&self, partition: &P, kind: usize, term_addresses: [usize; 2]) -> bool {
        addresses(&self.symbols) == term_addresses
            && self.kind as usize == kind
            && self.partition == *partition
    }
}

impl<P: Clone + Eq + Hash, V> TermMap<P, V> {
    #[inline]
    pub(crate) fn get<Q: Borrow<P>>(&self, key: &PartitionKey<Q>, term: Term<'_>) -> Option<&V> {
        let kind = term.kind();
        if !self.has_kind(kind) {
            return None;
        }
        let addresses = addresses(&term.symbols());
        let entry = self.entries.find(key.hash(kind, addresses), |entry| {
            entry.has_key(key.partition.borrow(), kind, addresses)
        });
        entry.map(|entry| &entry.value)
    }

    /// Whether there is any entry of this kind of term.
    #[inline]
    pub(crate) fn has_kind(&self, kind: usize) -> bool {
        self.entries_by_kind
            .get(kind)
            .is_some_and(|count| *count > 0)
    }

    /// Calls `update` with the value of a term, or inserts a new value.
    pub(crate) fn upsert(
        &mut self,
        partition: &P,
        term: Term<'_>,
        update: impl FnOnce(&mut V),
        new: impl FnOnce() -> V,
    ) {
        let (kind, symbols) = (term.kind(), term.symbols());
        let addresses = addresses(&symbols);
        let hash = PartitionKey::new::<P>(partition).hash(kind, addresses);
        let has_key = |entry: &TermEntry<P, V>| entry.has_key(partition, kind, addresses);
        match self.entries.entry(hash, has_key, TermEntry::hash) {
            Entry::Occupied(mut entry) => update(&mut entry.get_mut().value),
            Entry::Vacant(free) => {
                free.insert(TermEntry {
                    partition: partition.clone(),
                    kind: u32::try_from(kind).unwrap_or(u32::MAX),
                    symbols: symbols.map(Option::<&Symbol>::cloned),
                    value: new(),
                });
                if self.entries_by_kind.len() <= kind {
                    self.entries_by_kind.resize(kind + 1, 0);
                }
                self.entries_by_kind[kind] += 1;
            }
        }
    }

    /// Calls `update` with the value of a term. Removes the entry if it returns `true`.
    pub(crate) fn update_or_remove(
        &mut self,
        partition: &P,
        term: Term<'_>,
        update: impl FnOnce(&mut V) -> bool,
    ) {
        let kind = term.kind();
        let addresses = addresses(&term.symbols());
        let hash = PartitionKey::new::<P>(partition).hash(kind, addresses);
        let has_key = |entry: &TermEntry<P, V>| entry.has_key(partition, kind, addresses);
        if let Ok(mut entry) = self.entries.find_entry(hash, has_key)
            && update(&mut entry.get_mut().value)
        {
            entry.remove();
            self.entries_by_kind[kind] -= 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[Option<Symbol>; 2], &V)> {
        self.entries
            .iter()
            .map(|entry| (&entry.symbols, &entry.value))
    }
}

impl<P, V> Default for TermMap<P, V> {
    fn default() -> Self {
        TermMap {
            entries: HashTable::new(),
            entries_by_kind: Vec::new(),
        }
    }
}

impl<P: fmt::Debug, V: fmt::Debug> fmt::Debug for TermMap<P, V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.iter();
        let entries =
            entries.map(|entry| ((&entry.partition, entry.kind, &entry.symbols), &entry.value));
        formatter.debug_map().entries(entries).finish()
    }
}
