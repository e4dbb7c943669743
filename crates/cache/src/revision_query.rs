//! Queries the store's current revision once on behalf of many concurrent callers (like `singleflight`).

use std::sync::atomic::{AtomicU64, Ordering};

use rhumb_store::{Result, Revision, Store};
use tokio::sync::Mutex;

/// Coalesces concurrent queries for the store's revision.
///
/// On etcd each query is a quorum round trip. A response is valid for every caller that arrived before the query was
/// sent, so under load one query serves many callers: while one is in flight, later callers wait for the next.
#[derive(Debug, Default)]
pub(crate) struct CoalescedRevisionQuery {
    /// Number of the next caller.
    next_caller: AtomicU64,
    answer: Mutex<RevisionAnswer>,
}

/// The latest response of the store.
#[derive(Debug, Default)]
struct RevisionAnswer {
    /// The response is valid for callers with a lower number.
    valid_for_callers_before: u64,
    revision: Revision,
}

impl CoalescedRevisionQuery {
    /// A revision that is at least as new as this call.
    pub(crate) async fn revision(&self, store: &dyn Store) -> Result<Revision> {
        let number = self.next_caller.fetch_add(1, Ordering::SeqCst);
        let mut answer = self.answer.lock().await;
        if answer.valid_for_callers_before <= number {
            let asked_at = self.next_caller.load(Ordering::SeqCst);
            let revision = store.revision().await?;
            *answer = RevisionAnswer {
                valid_for_callers_before: asked_at,
                revision,
            };
        }
        Ok(answer.revision)
    }
}
