//! Waits between the attempts of a request, with jitter and a deadline.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use rhumb_meta::Backoff;
use tokio::time::Instant;

/// Waits that double between two bounds, each shortened by a random part so that clients do not retry at the same time.
#[derive(Debug)]
pub(super) struct JitteredBackoff(Backoff);

impl JitteredBackoff {
    pub(super) fn new(first_ms: u64, max_ms: u64) -> Self {
        let (first, max) = (
            Duration::from_millis(first_ms),
            Duration::from_millis(max_ms),
        );
        JitteredBackoff(Backoff::new(first, max))
    }

    /// The number of waits so far.
    pub(super) fn waits(&self) -> u32 {
        self.0.failures()
    }

    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.0.next_delay_with_jitter(random())).await;
    }

    /// Waits, unless the deadline would pass meanwhile: then it returns false at once.
    pub(super) async fn wait_before(&mut self, deadline: Instant) -> bool {
        let wait = self.0.next_delay_with_jitter(random());
        if Instant::now() + wait >= deadline {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
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
    fn random_numbers_differ() {
        assert_ne!(random(), random());
    }
}
