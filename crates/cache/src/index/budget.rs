//! The memory budget that the adaptive indexes of all resources share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Total bytes reserved by adaptive indexes.
#[derive(Debug, Default)]
pub(crate) struct IndexMemoryBudget {
    used: AtomicUsize,
}

/// Bytes reserved for one index; released when its last version is dropped.
#[derive(Debug)]
pub(crate) struct BudgetReservation {
    budget: Arc<IndexMemoryBudget>,
    bytes: AtomicUsize,
}

impl IndexMemoryBudget {
    /// Reserves `bytes` unless the total would exceed `max`.
    pub(super) fn try_reserve(
        self: &Arc<Self>,
        bytes: usize,
        max: usize,
    ) -> Option<Arc<BudgetReservation>> {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= max);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .ok()?;
        Some(Arc::new(BudgetReservation {
            budget: Arc::clone(self),
            bytes: AtomicUsize::new(bytes),
        }))
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl BudgetReservation {
    /// Adjusts the reservation to the current size of the index.
    pub(super) fn resize(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes >= before {
            self.budget
                .used
                .fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            self.budget
                .used
                .fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
