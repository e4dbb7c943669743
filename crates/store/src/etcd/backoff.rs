//! Waiting before trying again: a little at first, then longer, never all at once.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// Doubling waits between two bounds, each cut by a random part so that many waiters spread out.
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
        let wait = self.step(random());
        tokio::time::sleep(wait).await;
    }

    /// Waits, unless there would be no time left afterwards: then it says so at once.
    pub(super) async fn wait_before(&mut self, deadline: Instant) -> bool {
        let wait = self.step(random());
        if Instant::now() + wait >= deadline {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }

    /// Between half of the current wait and all of it.
    fn step(&mut self, random: u64) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.max);
        self.waits += 1;
        // A thousand steps are fine enough for spreading, and cannot overflow.
        let cut = u32::try_from(random % 1000).unwrap_or(0);
        full / 2 + full / 2 * cut / 1000
    }
}

/// A random number good enough for names and waits: the standard library seeds its hashers from the
/// operating system.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_are_cut_by_at_most_half() {
        let mut backoff = Backoff::new(50, 200);
        let waits: Vec<_> = [0, 999, 0, 999].map(|random| backoff.step(random)).into();
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
