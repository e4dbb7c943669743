//! What the adaptive indexes of all resources take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: AtomicUsize,
}

/// A part of the budget, given back when the last version of an index goes.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Budget {
    /// So many bytes if there are still so many.
    pub(super) fn share(self: &Arc<Self>, bytes: usize, max: usize) -> Option<Arc<Share>> {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= max);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .ok()?;
        Some(Arc::new(Share {
            budget: Arc::clone(self),
            bytes: AtomicUsize::new(bytes),
        }))
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Share {
    /// An index takes another amount than before.
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

impl Drop for Share {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
