//! Automatic compaction: decides when to drop history, by age and by number of revisions
//! (etcd: `--auto-compaction-retention`).

use std::collections::VecDeque;
use std::time::Duration;

/// How much history is kept. The store compacts when either limit is exceeded by a tenth, because each compaction costs
/// a write.
#[derive(Debug, Clone, Copy)]
pub struct RetentionPolicy {
    /// The maximum age of history. kube-apiserver compacts etcd every five minutes.
    pub age_max: Duration,
    /// The maximum number of revisions of history, whatever their age.
    pub revisions_max: u64,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        RetentionPolicy {
            age_max: Duration::from_secs(5 * 60),
            revisions_max: 100_000,
        }
    }
}

/// Samples when revisions were reached, and decides when and to which revision to compact. Revisions that existed when
/// the store was opened count as new.
#[derive(Debug)]
pub(super) struct CompactionSchedule {
    retention: RetentionPolicy,
    /// Times and the revisions reached by then, at most one sample per `SAMPLE_INTERVAL`.
    samples: VecDeque<(Duration, u64)>,
    /// The latest revision older than the maximum age.
    expired_revision: u64,
    /// The earliest time of the next compaction by age.
    next_age_compaction: Duration,
}

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

impl CompactionSchedule {
    pub(super) fn new(retention: RetentionPolicy) -> Self {
        CompactionSchedule {
            retention,
            samples: VecDeque::new(),
            expired_revision: 0,
            next_age_compaction: Duration::ZERO,
        }
    }

    /// Records the current revision. `now` is a monotonic time since any fixed start.
    pub(super) fn record_revision(&mut self, now: Duration, revision: u64) {
        let due = self
            .samples
            .back()
            .is_none_or(|&(last, _)| now >= last + SAMPLE_INTERVAL);
        if due {
            self.samples.push_back((now, revision));
        }
    }

    /// The revision to compact to, if a compaction is due.
    pub(super) fn compaction_due(
        &mut self,
        now: Duration,
        current: u64,
        compacted: u64,
    ) -> Option<u64> {
        while let Some(&(time, revision)) = self.samples.front()
            && now.saturating_sub(time) > self.retention.age_max
        {
            self.expired_revision = revision;
            self.samples.pop_front();
        }
        let too_much = current.saturating_sub(self.retention.revisions_max);
        let much_too_much = too_much > compacted + self.retention.revisions_max / 10;
        let too_old = self.expired_revision > compacted && now >= self.next_age_compaction;
        if !much_too_much && !too_old {
            return None;
        }
        Some(self.expired_revision.max(too_much))
    }

    /// Called after the due compaction.
    pub(super) fn compaction_done(&mut self, now: Duration) {
        self.next_age_compaction = now + (self.retention.age_max / 10).max(SAMPLE_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn ages(age_max_seconds: u64, revisions_max: u64) -> CompactionSchedule {
        CompactionSchedule::new(RetentionPolicy {
            age_max: seconds(age_max_seconds),
            revisions_max,
        })
    }

    #[test]
    fn recent_history_is_kept() {
        let mut ages = ages(300, 1000);
        for second in 0..=300 {
            ages.record_revision(seconds(second), 10 + second);
        }
        assert_eq!(ages.compaction_due(seconds(300), 310, 0), None);
    }

    #[test]
    fn old_history_is_compacted_even_if_small() {
        let mut ages = ages(300, 1000);
        for second in 0..=302 {
            ages.record_revision(seconds(second), 10);
        }
        assert_eq!(ages.compaction_due(seconds(302), 10, 0), Some(10));
        assert_eq!(ages.compaction_due(seconds(302), 10, 10), None);
    }

    #[test]
    fn old_history_is_compacted_in_steps_of_a_tenth_of_its_age() {
        let mut ages = ages(300, u64::MAX);
        let (mut compacted, mut steps) = (0, 0);
        for second in 0..1000 {
            ages.record_revision(seconds(second), 10 + second);
            if let Some(begin) = ages.compaction_due(seconds(second), 10 + second, compacted) {
                assert!(begin > compacted);
                ages.compaction_done(seconds(second));
                (compacted, steps) = (begin, steps + 1);
            }
            let age_of_the_oldest = second.saturating_sub(compacted.saturating_sub(10));
            assert!(
                compacted == 0 || age_of_the_oldest <= 332,
                "{age_of_the_oldest}"
            );
        }
        assert!((20..=25).contains(&steps), "{steps}");
    }

    #[test]
    fn history_beyond_the_revision_limit_is_compacted_regardless_of_age() {
        let mut ages = ages(300, 1000);
        assert_eq!(ages.compaction_due(seconds(0), 1100, 0), None);
        assert_eq!(ages.compaction_due(seconds(0), 1101, 0), Some(101));
        assert_eq!(ages.compaction_due(seconds(0), 5000, 3000), Some(4000));
    }

    #[test]
    fn age_samples_are_bounded_by_time_not_by_writes() {
        let mut ages = ages(300, u64::MAX);
        for write in 0..1_000_000u64 {
            let now = Duration::from_millis(write);
            ages.record_revision(now, write);
            ages.compaction_due(now, write, 0);
        }
        assert!(ages.samples.len() <= 302);
    }
}
