//! `InFlightPermit`: a request's share of the max-in-flight limits (upstream: `WithMaxInFlightLimit`). The server
//! issues it; requests release it while they wait for external servers.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use rhumb_meta::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const TOO_MANY_YIELDED: &str = "Too many requests wait for webhooks, please try again later.";

/// Permit of one request, held until it is complete.
#[derive(Debug)]
pub struct InFlightPermit {
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    limit: Arc<Semaphore>,
    yield_slots: Arc<Semaphore>,
}

impl InFlightPermit {
    /// A permit of a limit; `yield_slots` limits how many permits may be yielded at a time.
    pub fn new(
        permit: OwnedSemaphorePermit,
        limit: Arc<Semaphore>,
        yield_slots: Arc<Semaphore>,
    ) -> InFlightPermit {
        InFlightPermit {
            permit: Mutex::new(Some(permit)),
            limit,
            yield_slots,
        }
    }

    /// Releases the permit while the request waits for an external server such as a webhook, so that a slow webhook
    /// delays only the requests that call it. Fails with 429 if too many requests wait already: a permit is never held
    /// during an external call.
    pub async fn yield_while<T>(&self, future: impl Future<Output = T>) -> Result<T, Status> {
        let Ok(_yield_slot) = self.yield_slots.try_acquire() else {
            return Err(Status::too_many_requests(TOO_MANY_YIELDED, 1));
        };
        let held = self.take();
        let was_held = held.is_some();
        drop(held);
        let result = future.await;
        if was_held {
            let permit = Arc::clone(&self.limit).acquire_owned().await.ok();
            *self.permit.lock() = permit;
        }
        Ok(result)
    }

    fn take(&self) -> Option<OwnedSemaphorePermit> {
        let mut permit = self.permit.lock();
        permit.take()
    }
}
