//! The revision before which past contents are not served, as if the store were compacted every five minutes. Corresponds
//! to upstream's `compactor`: clients must be able to rely on an old revision expiring, also that of a resource without
//! changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rhumb_meta::Revision;

/// Read for every list of a past revision, advanced by the store reflector.
#[derive(Debug, Default)]
pub(crate) struct CompactedRevision {
    compacted: AtomicU64,
    next: Mutex<Option<CompactionMark>>,
}

/// What the next compaction compacts to, and the time at which this revision was the current one.
#[derive(Debug, Clone, Copy)]
struct CompactionMark {
    revision: Revision,
    at: Duration,
}

impl CompactedRevision {
    /// Contents before this revision are not served.
    pub(crate) fn get(&self) -> Revision {
        Revision::new(self.compacted.load(Ordering::Relaxed))
    }

    /// Compacts to the revision of the last call that did so, once `interval` has passed since then: so a revision is
    /// served for at least one interval, and for at most two.
    pub(crate) fn advance(&self, applied: Revision, now: Duration, interval: Duration) {
        let mut next = self.next.lock();
        let mark = match *next {
            Some(mark) if now.saturating_sub(mark.at) < interval => return,
            mark => mark,
        };
        if let Some(mark) = mark {
            self.compacted.store(mark.revision.get(), Ordering::Relaxed);
        }
        *next = Some(CompactionMark {
            revision: applied,
            at: now,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_served_for_one_to_two_intervals() {
        let compacted = CompactedRevision::default();
        let check = |seconds: u64, applied: u64, expect: u64| {
            let (now, interval) = (Duration::from_secs(seconds), Duration::from_secs(300));
            compacted.advance(Revision::new(applied), now, interval);
            assert_eq!(compacted.get(), Revision::new(expect), "after {seconds} s");
        };
        check(7, 10, 0);
        check(15, 20, 0);
        check(306, 20, 0);
        check(307, 30, 10);
        check(600, 40, 10);
        check(607, 50, 30);
        check(2_000, 50, 50);
    }
}
