//! The ordered set behind an index: entries sorted by the value of one attribute, then by key.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use equivalent::{Comparable, Equivalent};
use imbl::OrdSet;
use rhumb_meta::ObjectKey;

use crate::CacheEntry;

/// Estimated bytes per object in an index that is yet to be built: three words in tree nodes that are half full.
pub(crate) const POSTING_BYTES: usize = 72;

/// A persistent set of postings. Clones share memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct IndexEntrySet {
    set: OrdSet<IndexEntry>,
}

/// One entry under its value.
#[derive(Debug, Clone)]
pub(super) struct IndexEntry {
    value: Arc<str>,
    entry: Arc<CacheEntry>,
}

impl IndexEntry {
    pub(super) fn value(&self) -> &Arc<str> {
        &self.value
    }

    pub(super) fn has_value(&self, value: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.value, value) || self.value == *value
    }

    fn compare(&self, value: &str, key: KeyBound<'_>) -> Ordering {
        let mine = KeyBound::At(self.entry.key().as_str());
        (*self.value).cmp(value).then_with(|| mine.cmp(&key))
    }
}

impl Ord for IndexEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        // Values are interned: equal values usually have the same pointer.
        let values = match Arc::ptr_eq(&self.value, &other.value) {
            true => Ordering::Equal,
            false => self.value.cmp(&other.value),
        };
        values.then_with(|| self.entry.key().cmp(other.entry.key()))
    }
}

impl PartialOrd for IndexEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for IndexEntry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for IndexEntry {}

/// A bound in the key order of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyBound<'a> {
    At(&'a str),
    End,
}

/// A bound in the order of all postings; compares with postings without building one.
struct PostingBound<'a> {
    value: &'a str,
    key: KeyBound<'a>,
}

impl Equivalent<IndexEntry> for PostingBound<'_> {
    fn equivalent(&self, posting: &IndexEntry) -> bool {
        self.compare(posting).is_eq()
    }
}

impl Comparable<IndexEntry> for PostingBound<'_> {
    fn compare(&self, posting: &IndexEntry) -> Ordering {
        posting.compare(self.value, self.key).reverse()
    }
}

impl IndexEntrySet {
    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &IndexEntry> {
        self.set.iter()
    }

    pub(crate) fn insert(&mut self, value: &Arc<str>, entry: &Arc<CacheEntry>) {
        self.set.insert(IndexEntry {
            value: Arc::clone(value),
            entry: Arc::clone(entry),
        });
    }

    pub(crate) fn remove(&mut self, value: &str, key: &ObjectKey) {
        self.set.remove(&PostingBound {
            value,
            key: KeyBound::At(key.as_str()),
        });
    }

    /// The entries with this value and a key between the bounds, both exclusive, in key order.
    pub(crate) fn range<'a>(
        &'a self,
        value: &str,
        (after, before): (KeyBound<'_>, KeyBound<'_>),
    ) -> impl Iterator<Item = &'a Arc<CacheEntry>> + use<'a> {
        let start = Bound::Excluded(PostingBound { value, key: after });
        let end = Bound::Excluded(PostingBound { value, key: before });
        self.set.range((start, end)).map(|posting| &posting.entry)
    }

    /// All entries, ordered by value.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<CacheEntry>> {
        self.set.iter().map(|posting| &posting.entry)
    }

    /// Number of objects with this value.
    pub(crate) fn count(&self, value: &str) -> usize {
        self.range(value, (KeyBound::At(""), KeyBound::End)).count()
    }
}
