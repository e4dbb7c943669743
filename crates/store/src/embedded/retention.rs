//! How much history is kept: a pure decision, made again and again.

use std::collections::VecDeque;
use std::time::Duration;

/// History goes when either limit is passed.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Changes older than this may go. Upstream compacts every five minutes.
    pub age_max: Duration,
    /// At most this many revisions are kept, however young.
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
}

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

impl Ages {
    pub(super) fn new(retention: Retention) -> Self {
        Ages {
            retention,
            samples: VecDeque::new(),
            aged: 0,
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

    /// Where the history may begin: everything before it is too old or too much.
    pub(super) fn begin(&mut self, now: Duration, current: u64) -> u64 {
        while let Some(&(time, revision)) = self.samples.front()
            && now.saturating_sub(time) > self.retention.age_max
        {
            self.aged = revision;
            self.samples.pop_front();
        }
        self.aged
            .max(current.saturating_sub(self.retention.revisions_max))
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
        assert_eq!(ages.begin(seconds(300), 310), 0);
    }

    #[test]
    fn old_history_goes() {
        let mut ages = ages(300, 1000);
        for second in 0..400 {
            ages.note(seconds(second), 10 + second);
        }
        for _ in 0..2 {
            assert_eq!(
                ages.begin(seconds(400), 410),
                10 + 99,
                "asked once or again"
            );
        }
    }

    #[test]
    fn too_much_history_goes_however_young() {
        assert_eq!(ages(300, 1000).begin(seconds(0), 5000), 4000);
    }

    #[test]
    fn memory_for_ages_is_bounded_by_time_not_by_writes() {
        let mut ages = ages(300, u64::MAX);
        for write in 0..100_000u64 {
            let now = Duration::from_millis(write);
            ages.note(now, write);
            ages.begin(now, write);
        }
        assert!(ages.samples.len() <= 302);
    }
}
