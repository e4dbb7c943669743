//! How much of what was decided is still being told to the server.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bindings that are asked for at a time. A store that commits in groups likes many; a server lets in 200 writes of all
/// who write, by default.
const BINDINGS_MAX: usize = 100;
/// Bindings of which nobody knows what became of them. Each keeps its place, and is in nobody else's way.
const SETTLING_MAX: usize = 4096;
/// Other things to be written that may wait.
const WRITES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct InFlight {
    bindings: AtomicUsize,
    settling: AtomicUsize,
    writes: AtomicUsize,
}

impl InFlight {
    /// Whether something more may be decided.
    pub(super) fn has_room(&self) -> bool {
        self.bindings() < BINDINGS_MAX
            && self.settling.load(Ordering::Acquire) < SETTLING_MAX
            && self.writes.load(Ordering::Acquire) < WRITES_MAX
    }

    /// Nothing is under way.
    pub(super) fn is_settled(&self) -> bool {
        let all = [&self.bindings, &self.settling, &self.writes];
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

    /// What became of a binding has to be found out.
    pub(super) fn begin_settling(&self) {
        // In this order it is always somewhere.
        self.settling.fetch_add(1, Ordering::AcqRel);
        self.end_binding();
    }

    pub(super) fn end_settling(&self) {
        self.settling.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn begin_write(&self) {
        self.writes.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn end_write(&self) {
        self.writes.fetch_sub(1, Ordering::AcqRel);
    }
}
