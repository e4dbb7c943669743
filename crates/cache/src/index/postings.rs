//! The objects of a resource in the order of one attribute's values, then of their keys.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use equivalent::{Comparable, Equivalent};
use imbl::OrdSet;
use rhumb_meta::ObjectKey;

use crate::Entry;

/// About what one object costs in an index: three words in tree nodes that are two thirds full.
pub(crate) const POSTING_BYTES: usize = 48;

/// Clones share their memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Postings {
    set: OrdSet<Posting>,
}

#[derive(Debug, Clone)]
struct Posting {
    value: Arc<str>,
    entry: Arc<Entry>,
}

impl Posting {
    fn compare(&self, value: &str, key: Edge<'_>) -> Ordering {
        let mine = Edge::At(self.entry.key().as_str());
        (*self.value).cmp(value).then_with(|| mine.cmp(&key))
    }
}

impl Ord for Posting {
    fn cmp(&self, other: &Self) -> Ordering {
        // Values are interned: most that are equal are one.
        let values = match Arc::ptr_eq(&self.value, &other.value) {
            true => Ordering::Equal,
            false => self.value.cmp(&other.value),
        };
        values.then_with(|| self.entry.key().cmp(other.entry.key()))
    }
}

impl PartialOrd for Posting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Posting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Posting {}

/// A place among the keys of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edge<'a> {
    At(&'a str),
    End,
}

/// A place among all postings.
struct Place<'a> {
    value: &'a str,
    key: Edge<'a>,
}

impl Equivalent<Posting> for Place<'_> {
    fn equivalent(&self, posting: &Posting) -> bool {
        self.compare(posting).is_eq()
    }
}

impl Comparable<Posting> for Place<'_> {
    fn compare(&self, posting: &Posting) -> Ordering {
        posting.compare(self.value, self.key).reverse()
    }
}

impl Postings {
    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.set.len() * POSTING_BYTES
    }

    pub(crate) fn insert(&mut self, value: &Arc<str>, entry: &Arc<Entry>) {
        self.set.insert(Posting {
            value: Arc::clone(value),
            entry: Arc::clone(entry),
        });
    }

    pub(crate) fn remove(&mut self, value: &str, key: &ObjectKey) {
        self.set.remove(&Place {
            value,
            key: Edge::At(key.as_str()),
        });
    }

    /// Those with this value and a key between the edges, in key order. Neither edge is in it.
    pub(crate) fn range<'a>(
        &'a self,
        value: &str,
        (after, before): (Edge<'_>, Edge<'_>),
    ) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        let start = Bound::Excluded(Place { value, key: after });
        let end = Bound::Excluded(Place { value, key: before });
        self.set.range((start, end)).map(|posting| &posting.entry)
    }

    /// All of them, in the order of their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.set.iter().map(|posting| &posting.entry)
    }

    /// How many objects have this value.
    pub(crate) fn count(&self, value: &str) -> usize {
        self.range(value, (Edge::At(""), Edge::End)).count()
    }
}
