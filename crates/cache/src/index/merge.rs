//! Several lists in key order as one.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::Entry;

/// The next entry of a list, and what follows it.
struct Head<'a, I> {
    entry: &'a Arc<Entry>,
    rest: I,
}

impl<I> Ord for Head<'_, I> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.entry.key().cmp(other.entry.key())
    }
}

impl<I> PartialOrd for Head<'_, I> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<I> PartialEq for Head<'_, I> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<I> Eq for Head<'_, I> {}

/// All entries of the lists, in key order if each list is.
pub(super) fn merge<'a, I: Iterator<Item = &'a Arc<Entry>>>(
    lists: impl Iterator<Item = I>,
) -> impl Iterator<Item = &'a Arc<Entry>> {
    let head = |mut rest: I| {
        let entry = rest.next()?;
        Some(Reverse(Head { entry, rest }))
    };
    let mut heads: BinaryHeap<_> = lists.filter_map(head).collect();
    std::iter::from_fn(move || {
        let mut first = heads.peek_mut()?;
        let Head { entry, rest } = &mut first.0;
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
