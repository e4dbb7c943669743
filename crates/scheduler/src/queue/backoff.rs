//! Exponential backoff of unschedulable pods.

use std::time::Duration;

/// The backoff of a pod by its number of failed attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodBackoff {
    pub initial: Duration,
    /// Zero disables backoff.
    pub max: Duration,
}

impl PodBackoff {
    /// The backoff after this number of failed attempts.
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
    fn backoff_doubles_up_to_the_maximum() {
        let backoff = PodBackoff {
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
    fn a_maximum_of_zero_disables_backoff() {
        let backoff = PodBackoff {
            initial: Duration::from_secs(1),
            max: Duration::ZERO,
        };
        assert_eq!(backoff.duration(3), Duration::ZERO);
    }
}
