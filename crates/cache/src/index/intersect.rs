//! Intersection of two lists of entries in key order, by galloping search.
//!
//! If the entries of the two lists alternate, this is no faster than filtering the shorter list; it then stops early
//! and leaves the filtering to the caller. If they are clustered, as with teams in separate namespaces, it skips most
//! entries without examining them.

use std::sync::Arc;

use crate::CacheEntry;

/// Comparisons after which the intersection stops unless it has skipped more entries than that.
const TRIAL_COMPARISONS: usize = 256;

/// A superset of the entries that are in both lists, in order. The caller still has to filter them.
pub(super) fn intersect<'a>(
    first: &[&'a Arc<CacheEntry>],
    second: &[&Arc<CacheEntry>],
) -> Vec<&'a Arc<CacheEntry>> {
    let mut found = Vec::new();
    let (mut a, mut b, mut comparisons) = (0, 0, 0);
    while let (Some(first_entry), Some(second_entry)) = (first.get(a), second.get(b)) {
        if comparisons > TRIAL_COMPARISONS && comparisons > a + b {
            found.extend_from_slice(&first[a..]);
            break;
        }
        if Arc::ptr_eq(first_entry, second_entry) {
            found.push(*first_entry);
            (a, b) = (a + 1, b + 1);
        } else if first_entry.key() < second_entry.key() {
            a += gallop(&first[a..], second_entry, &mut comparisons);
        } else {
            b += gallop(&second[b..], first_entry, &mut comparisons);
        }
        comparisons += 1;
    }
    found
}

/// Number of entries before `target`. The first one is known to be.
fn gallop(entries: &[&Arc<CacheEntry>], target: &CacheEntry, comparisons: &mut usize) -> usize {
    let mut is_before = |index: usize| {
        *comparisons += 1;
        entries
            .get(index)
            .is_some_and(|entry| entry.key() < target.key())
    };
    let mut step = 1;
    while is_before(step) {
        step *= 2;
    }
    // The entry at `step / 2` is known to be before the goal, the one at `step` is known not to be.
    let (mut low, mut high) = (step / 2, step.min(entries.len()));
    while low + 1 < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}
