//! Whether this process leads, as far as one can be sure of it without asking.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Shared by the one who renews the lease and those who write as the leader. They look at it immediately before each
/// write: a process that was stopped for a while, and goes on, finds that its time is over before anybody tells it.
#[derive(Debug, Clone)]
pub struct Lead {
    /// Counted from before the last successful request for the lease; others count from a later time.
    sure_until: Arc<Mutex<Instant>>,
    renew_deadline: Duration,
}

impl Lead {
    pub fn new(asked: Instant, renew_deadline: Duration) -> Lead {
        Lead {
            sure_until: Arc::new(Mutex::new(asked + renew_deadline)),
            renew_deadline,
        }
    }

    /// For one that leads without a lease: nobody else is said to be there.
    pub fn unasked() -> Lead {
        const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        Lead::new(Instant::now(), FOREVER)
    }

    /// Whether nobody else can lead at this time.
    pub fn is_sure(&self, now: Instant) -> bool {
        now < self.sure_until()
    }

    pub fn sure_until(&self) -> Instant {
        *self.lock()
    }

    /// The lease was renewed by a request that began then.
    pub(super) fn renewed(&self, asked: Instant) {
        *self.lock() = asked + self.renew_deadline;
    }

    /// From now on this process does not lead.
    pub fn end(&self) {
        let mut sure_until = self.lock();
        *sure_until = Instant::now().min(*sure_until);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Instant> {
        // An instant is whole whatever happened to others who had it.
        self.sure_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
