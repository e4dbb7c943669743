//! Readiness of the scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A leader is ready once all informers have synced; a standby is always ready.
#[derive(Debug, Default)]
pub struct SchedulerHealth {
    is_starting: AtomicBool,
}

impl SchedulerHealth {
    pub fn is_ready(&self) -> bool {
        !self.is_starting.load(Ordering::Acquire)
    }

    /// Marks the start of a leadership term: not ready until the first scheduling cycle or until the guard is dropped.
    pub(super) fn begin_startup(self: &Arc<Self>) -> StartupGuard {
        self.is_starting.store(true, Ordering::Release);
        StartupGuard(self.clone())
    }

    pub(super) fn finish_startup(&self) {
        self.is_starting.store(false, Ordering::Release);
    }
}

/// Held during a leadership term; restores readiness when the term ends before startup is finished.
#[derive(Debug)]
pub(super) struct StartupGuard(Arc<SchedulerHealth>);

impl Drop for StartupGuard {
    fn drop(&mut self) {
        self.0.finish_startup();
    }
}
