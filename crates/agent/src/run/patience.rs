//! How long to wait after failures, and how often to speak of them.

use std::time::Duration;

use tokio::time::Instant;

/// People are told of a failure that lasts this often.
const REMINDER: Duration = Duration::from_secs(60);

/// Failures in a row.
#[derive(Debug)]
pub(super) struct Patience {
    first: Duration,
    most: Duration,
    failures: u32,
    told: Option<Instant>,
}

impl Patience {
    pub(super) fn new(first: Duration, most: Duration) -> Patience {
        Patience {
            first,
            most,
            failures: 0,
            told: None,
        }
    }

    /// Another failure: how long to wait, and whether to tell people.
    pub(super) fn fail(&mut self, now: Instant) -> (Duration, bool) {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let is_news = self.told.is_none_or(|told| now - told >= REMINDER);
        if is_news {
            self.told = Some(now);
        }
        (self.first.saturating_mul(factor).min(self.most), is_news)
    }

    /// It works; whether it did not before, and people were told so.
    pub(super) fn succeed(&mut self) -> bool {
        self.failures = 0;
        self.told.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_wait_longer_and_longer_and_are_told_once_a_minute() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut patience = Patience::new(second, 30 * second);
        assert!(!patience.succeed());
        let mut at = start;
        let mut waits = Vec::new();
        let mut told = Vec::new();
        for index in 0..8 {
            let (wait, is_news) = patience.fail(at);
            waits.push(wait.as_secs());
            if is_news {
                told.push(index);
            }
            at += wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(told, [0, 6]);
        assert!(patience.succeed());
        assert_eq!(patience.fail(at), (second, true));
        for _ in 0..100 {
            patience.fail(at);
        }
        assert_eq!(patience.fail(at), (30 * second, false));
    }
}
