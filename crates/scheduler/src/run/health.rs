//! Whether this process does what it is there for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One that leads is ready once it has seen all that there is; one that waits for the lease is ready to take it.
#[derive(Debug, Default)]
pub struct Health {
    is_starting: AtomicBool,
}

impl Health {
    pub fn is_ready(&self) -> bool {
        !self.is_starting.load(Ordering::Acquire)
    }

    /// This process leads, and has seen nothing yet. That is over when it decides, or leads no longer.
    pub(super) fn starts(self: &Arc<Self>) -> Leading {
        self.is_starting.store(true, Ordering::Release);
        Leading(self.clone())
    }

    pub(super) fn has_started(&self) {
        self.is_starting.store(false, Ordering::Release);
    }
}

/// For as long as this process leads.
#[derive(Debug)]
pub(super) struct Leading(Arc<Health>);

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.has_started();
    }
}
