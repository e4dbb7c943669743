//! The local deadline until which this process is certain to be the leader.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Shared by the task that renews the lease and the tasks that write as the leader. Writers check it immediately before
/// each write, so that a process that was suspended does not write after another one may have taken over.
#[derive(Debug, Clone)]
pub struct LeadershipDeadline {
    /// Measured from the start of the last successful renewal. Other processes measure from a later time.
    valid_until: Arc<Mutex<Instant>>,
    renew_deadline: Duration,
}

impl LeadershipDeadline {
    pub fn new(requested: Instant, renew_deadline: Duration) -> LeadershipDeadline {
        LeadershipDeadline {
            valid_until: Arc::new(Mutex::new(requested + renew_deadline)),
            renew_deadline,
        }
    }

    /// For a process without leader election: it is always the leader.
    pub fn without_lease() -> LeadershipDeadline {
        const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        LeadershipDeadline::new(Instant::now(), FOREVER)
    }

    /// Whether no other process can be the leader at this time.
    pub fn is_leader_at(&self, now: Instant) -> bool {
        now < self.valid_until()
    }

    pub fn valid_until(&self) -> Instant {
        *self.lock()
    }

    /// Extends the deadline after a renewal whose request was sent at `requested`.
    pub(super) fn extend(&self, requested: Instant) {
        *self.lock() = requested + self.renew_deadline;
    }

    /// Ends the leadership now.
    pub fn expire(&self) {
        let mut sure_until = self.lock();
        *sure_until = Instant::now().min(*sure_until);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Instant> {
        // Ignores poisoning: an instant is always consistent.
        self.valid_until.lock()
    }
}
