//! Exponential backoff with jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// Waits that double between two bounds, each shortened by a random part so that clients do not retry at the same time.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    max: Duration,
    pub(super) waits: u32,
}

impl Backoff {
    pub(super) fn new(first_ms: u64, max_ms: u64) -> Self {
        Backoff {
            next: Duration::from_millis(first_ms),
            max: Duration::from_millis(max_ms),
            waits: 0,
        }
    }

    pub(super) async fn wait(&mut self) {
        let wait = self.next_wait(random());
        tokio::time::sleep(wait).await;
    }

    /// Waits, unless the deadline would pass meanwhile: then it returns false at once.
    pub(super) async fn wait_before(&mut self, deadline: Instant) -> bool {
        let wait = self.next_wait(random());
        if Instant::now() + wait >= deadline {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }

    /// The next wait: between half of the current bound and all of it.
    fn next_wait(&mut self, random: u64) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.max);
        self.waits += 1;
        // A resolution of a thousandth is enough for jitter, and cannot overflow.
        let cut = u32::try_from(random % 1000).unwrap_or(0);
        full / 2 + full / 2 * cut / 1000
    }
}

/// A random number good enough for names and jitter: the standard library seeds its hashers from the operating system.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum_with_jitter() {
        let mut backoff = Backoff::new(50, 200);
        let waits: Vec<_> = [0, 999, 0, 999]
            .map(|random| backoff.next_wait(random))
            .into();
        let bounds = [(25, 50), (50, 100), (100, 200), (100, 200)];
        for (wait, (least, most)) in waits.iter().zip(bounds) {
            let expected = Duration::from_millis(least)..=Duration::from_millis(most);
            assert!(expected.contains(wait), "{wait:?} is not in {expected:?}");
        }
        assert_eq!(backoff.waits, 4);
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random(), random());
    }
}
