//! K-way merge of entry lists in key order.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::CacheEntry;

/// The next entry of a list and the rest of it, ordered by the key of the entry.
struct MergeHead<'a, I> {
    entry: &'a Arc<CacheEntry>,
    rest: I,
}

impl<I> Ord for MergeHead<'_, I> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.entry.key().cmp(other.entry.key())
    }
}

impl<I> PartialOrd for MergeHead<'_, I> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<I> PartialEq for MergeHead<'_, I> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<I> Eq for MergeHead<'_, I> {}

/// All entries of the lists, in key order if each list is in key order.
pub(super) fn merge<'a, I: Iterator<Item = &'a Arc<CacheEntry>>>(
    lists: impl Iterator<Item = I>,
) -> impl Iterator<Item = &'a Arc<CacheEntry>> {
    let head = |mut rest: I| {
        let entry = rest.next()?;
        Some(Reverse(MergeHead { entry, rest }))
    };
    let mut heads: BinaryHeap<_> = lists.filter_map(head).collect();
    std::iter::from_fn(move || {
        let mut first = heads.peek_mut()?;
        let MergeHead { entry, rest } = &mut first.0;
        match rest.next() {
            Some(next) => Some(std::mem::replace(entry, next)),
            None => {
                let entry = *entry;
                std::collections::binary_heap::PeekMut::pop(first);
                Some(entry)
            }
        }
    })
}
