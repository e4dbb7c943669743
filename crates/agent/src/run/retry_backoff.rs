//! Backoff with throttled logging of failures.

use std::time::Duration;

use rhumb_meta::Backoff;
use tokio::time::Instant;

/// A lasting failure is logged once per interval.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The backoff state of one operation.
#[derive(Debug)]
pub(super) struct RetryBackoff {
    backoff: Backoff,
    last_logged_at: Option<Instant>,
}

impl RetryBackoff {
    pub(super) fn new(initial: Duration, max: Duration) -> RetryBackoff {
        RetryBackoff {
            backoff: Backoff::new(initial, max),
            last_logged_at: None,
        }
    }

    /// Records a failure. Returns how long to wait, and whether to log it.
    pub(super) fn on_failure(&mut self, now: Instant) -> (Duration, bool) {
        let should_log = self
            .last_logged_at
            .is_none_or(|logged| now - logged >= LOG_INTERVAL);
        if should_log {
            self.last_logged_at = Some(now);
        }
        (self.backoff.next_delay(), should_log)
    }

    /// Resets the backoff. Returns whether a failure had been logged before.
    pub(super) fn on_success(&mut self) -> bool {
        self.backoff.reset();
        self.last_logged_at.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_failures_are_logged_once_a_minute() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut backoff = RetryBackoff::new(second, 30 * second);
        assert!(!backoff.on_success());
        let mut at = start;
        let mut waits = Vec::new();
        let mut logged = Vec::new();
        for index in 0..8 {
            let (wait, should_log) = backoff.on_failure(at);
            waits.push(wait.as_secs());
            if should_log {
                logged.push(index);
            }
            at += wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(logged, [0, 6]);
        assert!(backoff.on_success());
        assert_eq!(backoff.on_failure(at), (second, true));
        for _ in 0..100 {
            backoff.on_failure(at);
        }
        assert_eq!(backoff.on_failure(at), (30 * second, false));
    }
}
