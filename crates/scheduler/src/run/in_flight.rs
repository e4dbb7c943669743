//! Counts the writes in flight to the API server, to limit them and to know when a shutdown is clean.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Concurrent binding requests. Group commit in the store benefits from many; the API server's default limit is 200
/// mutating requests over all clients.
const BINDINGS_MAX: usize = 100;
/// Bindings whose outcome is unknown. Their pods stay assumed and do not block other bindings.
const UNRESOLVED_BINDINGS_MAX: usize = 4096;
/// Other queued writes: pod statuses and preemptions.
const WRITES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct InFlightWrites {
    bindings: AtomicUsize,
    unresolved: AtomicUsize,
    writes: AtomicUsize,
}

impl InFlightWrites {
    /// Whether another scheduling cycle may run.
    pub(super) fn has_capacity(&self) -> bool {
        self.bindings() < BINDINGS_MAX
            && self.unresolved.load(Ordering::Acquire) < UNRESOLVED_BINDINGS_MAX
            && self.writes.load(Ordering::Acquire) < WRITES_MAX
    }

    /// Whether no write is in flight.
    pub(super) fn is_idle(&self) -> bool {
        let all = [&self.bindings, &self.unresolved, &self.writes];
        all.iter().all(|count| count.load(Ordering::Acquire) == 0)
    }

    pub(super) fn bindings(&self) -> usize {
        self.bindings.load(Ordering::Acquire)
    }

    pub(super) fn begin_binding(&self) {
        self.bindings.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn end_binding(&self) {
        self.bindings.fetch_sub(1, Ordering::AcqRel);
    }

    /// The outcome of a binding is unknown and has to be resolved.
    pub(super) fn begin_resolving(&self) {
        // Increment first, so that the binding is counted at every moment.
        self.unresolved.fetch_add(1, Ordering::AcqRel);
        self.end_binding();
    }

    pub(super) fn end_resolving(&self) {
        self.unresolved.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn begin_write(&self) {
        self.writes.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn end_write(&self) {
        self.writes.fetch_sub(1, Ordering::AcqRel);
    }
}
