//! How much history is kept: a pure decision, made again and again.

use std::collections::VecDeque;
use std::time::Duration;

/// History goes when either limit is passed by a tenth: giving it up bit by bit would cost a write each.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Changes older than this go. Upstream compacts every five minutes.
    pub age_max: Duration,
    /// More revisions than this are not kept, however young.
    pub revisions_max: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            age_max: Duration::from_secs(5 * 60),
            revisions_max: 100_000,
        }
    }
}

/// Remembers when revisions were reached, roughly. What was there when the store was opened counts as new.
#[derive(Debug)]
pub(super) struct Ages {
    retention: Retention,
    /// Time and the revision reached by then, at most one sample a `SAMPLE_INTERVAL`.
    samples: VecDeque<(Duration, u64)>,
    /// The latest revision that is too old.
    aged: u64,
    /// When history may be given up for its age again.
    next_by_age: Duration,
}

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

impl Ages {
    pub(super) fn new(retention: Retention) -> Self {
        Ages {
            retention,
            samples: VecDeque::new(),
            aged: 0,
            next_by_age: Duration::ZERO,
        }
    }

    /// Notes where the store is. `now` counts from any fixed moment and does not go back.
    pub(super) fn note(&mut self, now: Duration, revision: u64) {
        let due = self
            .samples
            .back()
            .is_none_or(|&(last, _)| now >= last + SAMPLE_INTERVAL);
        if due {
            self.samples.push_back((now, revision));
        }
    }

    /// Where the history should begin, if it is time to move that on from `compacted`.
    pub(super) fn due(&mut self, now: Duration, current: u64, compacted: u64) -> Option<u64> {
        while let Some(&(time, revision)) = self.samples.front()
            && now.saturating_sub(time) > self.retention.age_max
        {
            self.aged = revision;
            self.samples.pop_front();
        }
        let too_much = current.saturating_sub(self.retention.revisions_max);
        let much_too_much = too_much > compacted + self.retention.revisions_max / 10;
        let too_old = self.aged > compacted && now >= self.next_by_age;
        if !much_too_much && !too_old {
            return None;
        }
        Some(self.aged.max(too_much))
    }

    /// What was due has been given up.
    pub(super) fn done(&mut self, now: Duration) {
        self.next_by_age = now + (self.retention.age_max / 10).max(SAMPLE_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn ages(age_max_seconds: u64, revisions_max: u64) -> Ages {
        Ages::new(Retention {
            age_max: seconds(age_max_seconds),
            revisions_max,
        })
    }

    #[test]
    fn young_history_is_kept() {
        let mut ages = ages(300, 1000);
        for second in 0..=300 {
            ages.note(seconds(second), 10 + second);
        }
        assert_eq!(ages.due(seconds(300), 310, 0), None);
    }

    #[test]
    fn old_history_goes_also_when_it_is_little() {
        let mut ages = ages(300, 1000);
        for second in 0..=302 {
            ages.note(seconds(second), 10);
        }
        assert_eq!(ages.due(seconds(302), 10, 0), Some(10));
        assert_eq!(ages.due(seconds(302), 10, 10), None);
    }

    #[test]
    fn old_history_goes_in_steps_of_a_tenth_of_its_age() {
        let mut ages = ages(300, u64::MAX);
        let (mut compacted, mut steps) = (0, 0);
        for second in 0..1000 {
            ages.note(seconds(second), 10 + second);
            if let Some(begin) = ages.due(seconds(second), 10 + second, compacted) {
                assert!(begin > compacted);
                ages.done(seconds(second));
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
    fn too_much_history_goes_however_young() {
        let mut ages = ages(300, 1000);
        assert_eq!(ages.due(seconds(0), 1100, 0), None);
        assert_eq!(ages.due(seconds(0), 1101, 0), Some(101));
        assert_eq!(ages.due(seconds(0), 5000, 3000), Some(4000));
    }

    #[test]
    fn memory_for_ages_is_bounded_by_time_not_by_writes() {
        let mut ages = ages(300, u64::MAX);
        for write in 0..1_000_000u64 {
            let now = Duration::from_millis(write);
            ages.note(now, write);
            ages.due(now, write, 0);
        }
        assert!(ages.samples.len() <= 302);
    }
}
