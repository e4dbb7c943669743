//! Exponential backoff (client-go: `wait.Backoff`, `ItemExponentialFailureRateLimiter`). Pure: yields delays, and never
//! sleeps.

use std::time::Duration;

/// Delays that start at `initial` and double with each failure, up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub const fn new(initial: Duration, max: Duration) -> Backoff {
        Backoff {
            initial,
            max,
            failures: 0,
        }
    }

    /// Counts a failure and returns the delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.delay_after(self.failures)
    }

    /// The delay after this number of failures, for callers that count them themselves. Zero without a failure.
    pub fn delay_after(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1_u32.checked_shl(doublings);
        let grown = factor.and_then(|factor| self.initial.checked_mul(factor));
        grown.unwrap_or(self.max).min(self.max)
    }

    /// As [`Backoff::next_delay`], shortened by a random part to between half and all of it, so that clients do not
    /// retry at the same time.
    pub fn next_delay_with_jitter(&mut self, random: u64) -> Duration {
        let half = self.next_delay() / 2;
        // A resolution of a thousandth is enough for jitter, and cannot overflow.
        let thousandths = u32::try_from(random % 1000).unwrap_or(0);
        half + half * thousandths / 1000
    }

    /// The number of failures since the last reset.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Starts again at the initial delay, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(SECOND, 10 * SECOND);
        let mut next = || backoff.next_delay().as_secs();
        assert_eq!([next(), next(), next(), next(), next()], [1, 2, 4, 8, 10]);
        for _ in 0..100 {
            assert_eq!(next(), 10);
        }
        assert_eq!(backoff.failures(), 105);
        backoff.reset();
        assert_eq!(backoff.next_delay(), SECOND);
    }

    #[test]
    fn jitter_takes_away_up_to_half_of_a_delay() {
        let mut backoff = Backoff::new(50 * SECOND / 1000, 200 * SECOND / 1000);
        let delays = [0, 999, 0, 999].map(|random| backoff.next_delay_with_jitter(random));
        let bounds = [(25, 50), (50, 100), (100, 200), (100, 200)];
        for (delay, (least, most)) in delays.iter().zip(bounds) {
            let expected = Duration::from_millis(least)..=Duration::from_millis(most);
            assert!(expected.contains(delay), "{delay:?} is not in {expected:?}");
        }
        assert_eq!(backoff.failures(), 4);
    }

    #[test]
    fn the_delay_after_a_number_of_failures_is_known() {
        let backoff = Backoff::new(SECOND, 10 * SECOND);
        for (failures, seconds) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 4),
            (4, 8),
            (5, 10),
            (u32::MAX, 10),
        ] {
            assert_eq!(
                backoff.delay_after(failures),
                Duration::from_secs(seconds),
                "{failures} failures"
            );
        }
    }

    #[test]
    fn a_maximum_of_zero_disables_backoff() {
        let backoff = Backoff::new(SECOND, Duration::ZERO);
        assert_eq!(backoff.delay_after(3), Duration::ZERO);
    }
}
