//! Counts the requests of a connection, so that idle connections can be detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Request activity of one connection.
#[derive(Debug, Default)]
pub struct ConnectionActivity {
    requests_started: AtomicU64,
    requests_in_progress: AtomicUsize,
}

impl ConnectionActivity {
    /// Counts a request until the returned guard is dropped.
    pub fn start_request(self: &Arc<Self>) -> ActiveRequest {
        self.requests_started.fetch_add(1, Ordering::Relaxed);
        self.requests_in_progress.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(self))
    }

    pub fn requests_started(&self) -> u64 {
        self.requests_started.load(Ordering::Relaxed)
    }

    pub fn has_requests_in_progress(&self) -> bool {
        self.requests_in_progress.load(Ordering::Relaxed) > 0
    }
}

/// A request in progress: from its arrival until its response body is sent or dropped.
#[derive(Debug)]
pub struct ActiveRequest(Arc<ConnectionActivity>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.requests_in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}
