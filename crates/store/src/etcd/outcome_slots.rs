//! Outcome slots: keys in etcd by which the outcome of a transaction can be determined later; see [`super::outcome`].
//!
//! A slot is written once before its first use. So a transaction always expects a mod revision of its slot, and a
//! deleted slot is never mistaken for an unused one.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use etcd_client::{Compare, CompareOp, DeleteOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::OUTCOMES_PREFIX;
use super::cluster_client::ClusterClient;
use super::convert::{EtcdFailure, header_revision, to_etcd};
use super::jittered_backoff::{JitteredBackoff, random};
use crate::{Error, Result, Revision};

/// The maximum number of in-flight transactions. Others wait for a slot.
const SLOTS_MAX: u32 = 256;

/// How often the creation of a slot is attempted.
const ATTEMPTS_MAX: u32 = 6;

/// The value of a slot before its first use. No marker is equal to it.
const UNUSED_MARKER: &str = "unused";

/// The slots of this instance.
pub(super) struct OutcomeSlotPool {
    instance: String,
    free: Mutex<Vec<OutcomeSlot>>,
    slots_created: AtomicU64,
    markers_issued: AtomicU64,
    in_flight: Arc<Semaphore>,
}

#[derive(Debug, Clone, Copy)]
struct OutcomeSlot {
    number: u64,
    /// The last known mod revision.
    mod_revision: Revision,
}

impl OutcomeSlotPool {
    pub(super) fn new() -> Self {
        OutcomeSlotPool {
            instance: format!("{:016x}{:016x}", random(), random()),
            free: Mutex::default(),
            slots_created: AtomicU64::new(0),
            markers_issued: AtomicU64::new(0),
            in_flight: Arc::new(Semaphore::new(SLOTS_MAX as usize)),
        }
    }

    fn prefix(&self) -> String {
        format!("{OUTCOMES_PREFIX}{}/", self.instance)
    }

    fn free(&self) -> MutexGuard<'_, Vec<OutcomeSlot>> {
        self.free.lock()
    }

    /// Waits until another transaction is allowed.
    pub(super) async fn acquire_permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit> {
        let permit = self.in_flight.clone().acquire_owned();
        match timeout_at(deadline, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => Err(Error::Unavailable {
                reason: format!("{SLOTS_MAX} transactions are already waiting for etcd"),
            }),
        }
    }

    /// Takes a free slot for one transaction, or creates one.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        client: &ClusterClient,
        permit: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> Result<AcquiredOutcomeSlot, EtcdFailure> {
        let free = self.free().pop();
        let slot = match free {
            Some(slot) => slot,
            None => self.create_slot(client, deadline).await?,
        };
        Ok(AcquiredOutcomeSlot {
            key: format!("{}{}", self.prefix(), slot.number),
            slot,
            in_doubt: false,
            slots: self.clone(),
            _permit: permit,
        })
    }

    /// Creates a slot. An attempt whose outcome is unknown may be applied at any later time, so each attempt has its
    /// own number, and only the slot of a confirmed attempt is used.
    async fn create_slot(
        &self,
        client: &ClusterClient,
        deadline: Instant,
    ) -> Result<OutcomeSlot, EtcdFailure> {
        let mut backoff = JitteredBackoff::new(20, 500);
        loop {
            let number = self.slots_created.fetch_add(1, Ordering::Relaxed);
            let key = format!("{}{number}", self.prefix());
            let made = client
                .call_once(deadline, |mut kv| async move {
                    kv.put(key, UNUSED_MARKER, None).await
                })
                .await
                .and_then(|response| header_revision(response.header()));
            let failure = match made {
                Ok(written) => {
                    return Ok(OutcomeSlot {
                        number,
                        mod_revision: written,
                    });
                }
                Err(failure) => failure,
            };
            let again = failure.is_transient() && backoff.waits() + 1 < ATTEMPTS_MAX;
            if !again || !backoff.wait_before(deadline).await {
                return Err(failure);
            }
        }
    }
}

impl fmt::Debug for OutcomeSlotPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutcomeSlotPool")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

/// A slot in use by a transaction. Dropped in doubt, it is never used again; otherwise it returns to the pool.
#[derive(Debug)]
pub(super) struct AcquiredOutcomeSlot {
    key: String,
    slot: OutcomeSlot,
    in_doubt: bool,
    slots: Arc<OutcomeSlotPool>,
    _permit: OwnedSemaphorePermit,
}

impl AcquiredOutcomeSlot {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn mod_revision(&self) -> Revision {
        self.slot.mod_revision
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Returns a marker that no other transaction ever writes. From now on the slot is in doubt.
    pub(super) fn new_marker(&mut self) -> String {
        self.in_doubt = true;
        let number = self.slots.markers_issued.fetch_add(1, Ordering::Relaxed);
        format!("{number}")
    }

    /// The condition that the slot was neither written nor deleted; it makes the transaction fail otherwise.
    pub(super) fn unchanged_compare(&self) -> Compare {
        let written = to_etcd(self.slot.mod_revision);
        Compare::mod_revision(self.key.as_str(), CompareOp::Equal, written)
    }

    /// Sets the confirmed mod revision; the slot is no longer in doubt.
    pub(super) fn confirm(&mut self, written: Revision) {
        self.slot.mod_revision = written;
        self.in_doubt = false;
    }

    /// Replaces a slot that is deleted or in doubt by a new one.
    pub(super) async fn replace(
        &mut self,
        client: &ClusterClient,
        deadline: Instant,
    ) -> Result<(), EtcdFailure> {
        self.slot = self.slots.create_slot(client, deadline).await?;
        self.key = format!("{}{}", self.slots.prefix(), self.slot.number);
        self.in_doubt = false;
        Ok(())
    }
}

impl Drop for AcquiredOutcomeSlot {
    fn drop(&mut self) {
        if !self.in_doubt {
            self.slots.free().push(self.slot);
        }
    }
}

/// Waits for in-flight transactions, rejects new ones, and removes the slots.
pub(super) async fn close(client: &ClusterClient, slots: &OutcomeSlotPool) {
    let deadline = Instant::now() + client.request_timeout + client.settle_timeout;
    let all_ended = timeout_at(deadline, slots.in_flight.acquire_many(SLOTS_MAX)).await;
    slots.in_flight.close();
    // Transactions that are still in flight need their slots to resolve their outcome.
    if !matches!(all_ended, Ok(Ok(_))) {
        return;
    }
    let prefix = slots.prefix();
    let removed = client
        .call_with_retries(|mut kv| {
            let prefix = prefix.clone();
            async move {
                kv.delete(prefix, Some(DeleteOptions::new().with_prefix()))
                    .await
            }
        })
        .await;
    if let Err(failure) = removed {
        tracing::debug!(
            reason = failure.reason,
            "failed to remove outcome slots on close; other instances remove them later"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_with_unknown_outcome_is_not_reused() {
        let slots = Arc::new(OutcomeSlotPool::new());
        let take = || async {
            let permit = slots.in_flight.clone().acquire_owned().await.unwrap();
            let free = slots.free.lock().pop();
            AcquiredOutcomeSlot {
                key: String::new(),
                slot: free.unwrap_or(OutcomeSlot {
                    number: 7,
                    mod_revision: Revision::new(1),
                }),
                in_doubt: false,
                slots: slots.clone(),
                _permit: permit,
            }
        };
        let mut slot = take().await;
        slot.new_marker();
        slot.confirm(Revision::new(3));
        drop(slot);
        let mut slot = take().await;
        assert_eq!(slot.mod_revision(), Revision::new(3));
        assert_ne!(slot.new_marker(), UNUSED_MARKER);
        drop(slot);
        assert!(slots.free.lock().is_empty());
        assert_eq!(slots.in_flight.available_permits(), SLOTS_MAX as usize);
    }
}
