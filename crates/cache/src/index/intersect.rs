//! Objects that are in both of two lists, both in key order.
//!
//! Where the objects of the two come in turns, this is no faster than to look at each object of the shorter one, and
//! then it stops and lets the caller do that. Where they lie apart, as those of different teams in different
//! namespaces do, it passes over most of them without a look.

use std::sync::Arc;

use crate::Entry;

/// After this many comparisons they must have paid.
const TRIAL: usize = 256;

/// Entries of the first list which the second may have as well. They still have to be filtered.
pub(super) fn intersect<'a>(
    first: &[&'a Arc<Entry>],
    second: &[&Arc<Entry>],
) -> Vec<&'a Arc<Entry>> {
    let mut found = Vec::new();
    let (mut a, mut b, mut comparisons) = (0, 0, 0);
    while let (Some(mine), Some(theirs)) = (first.get(a), second.get(b)) {
        if comparisons > TRIAL && comparisons > a + b {
            found.extend_from_slice(&first[a..]);
            break;
        }
        if Arc::ptr_eq(mine, theirs) {
            found.push(*mine);
            (a, b) = (a + 1, b + 1);
        } else if mine.key() < theirs.key() {
            a += gallop(&first[a..], theirs, &mut comparisons);
        } else {
            b += gallop(&second[b..], mine, &mut comparisons);
        }
        comparisons += 1;
    }
    found
}

/// How many entries are before the goal; the first is.
fn gallop(entries: &[&Arc<Entry>], goal: &Entry, comparisons: &mut usize) -> usize {
    let mut is_before = |index: usize| {
        *comparisons += 1;
        entries
            .get(index)
            .is_some_and(|entry| entry.key() < goal.key())
    };
    let mut step = 1;
    while is_before(step) {
        step *= 2;
    }
    // The last one known to be before it is at half the step, the first known not to be at the step.
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
