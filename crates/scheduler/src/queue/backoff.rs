//! How long a pod rests before it is tried again.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub initial: Duration,
    /// Nothing switches back-off off.
    pub max: Duration,
}

impl Backoff {
    /// After so many attempts in vain.
    pub(super) fn duration(&self, attempts: u32) -> Duration {
        let Some(doublings) = attempts.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1u32.checked_shl(doublings);
        let grown = factor.and_then(|factor| self.initial.checked_mul(factor));
        grown.unwrap_or(self.max).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_the_maximum() {
        let backoff = Backoff {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(10),
        };
        for (attempts, seconds) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 4),
            (4, 8),
            (5, 10),
            (u32::MAX, 10),
        ] {
            assert_eq!(
                backoff.duration(attempts),
                Duration::from_secs(seconds),
                "{attempts} attempts"
            );
        }
    }

    #[test]
    fn a_maximum_of_nothing_switches_it_off() {
        let backoff = Backoff {
            initial: Duration::from_secs(1),
            max: Duration::ZERO,
        };
        assert_eq!(backoff.duration(3), Duration::ZERO);
    }
}
