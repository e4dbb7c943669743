//! The keys by which transactions are recognised later: see [`super::outcome`] for how.
//!
//! A slot is written once before its first use. So what a transaction expects of it is always a revision at
//! which it was written, and a slot that is gone never looks like one that is still to be used.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etcd_client::{Compare, CompareOp, DeleteOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::OUTCOMES_PREFIX;
use super::backoff::{Backoff, random};
use super::convert::{Failure, header_revision, to_etcd};
use super::link::Link;
use crate::{Error, Result, Revision};

/// The most transactions under way at once. More wait for a slot.
const SLOTS_MAX: u32 = 256;

/// How often it is tried to make a slot.
const ATTEMPTS_MAX: u32 = 6;

/// What a slot holds before its first use. No note is equal to it.
const UNUSED: &str = "unused";

/// The slots of this instance.
pub(super) struct Slots {
    instance: String,
    free: Mutex<Vec<Slot>>,
    slots_made: AtomicU64,
    notes_made: AtomicU64,
    under_way: Arc<Semaphore>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    number: u64,
    /// When it was last written, as far as we know.
    written: Revision,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots {
            instance: format!("{:016x}{:016x}", random(), random()),
            free: Mutex::default(),
            slots_made: AtomicU64::new(0),
            notes_made: AtomicU64::new(0),
            under_way: Arc::new(Semaphore::new(SLOTS_MAX as usize)),
        }
    }

    fn prefix(&self) -> String {
        format!("{OUTCOMES_PREFIX}{}/", self.instance)
    }

    fn free(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for one more transaction.
    pub(super) async fn admit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit> {
        let permit = self.under_way.clone().acquire_owned();
        match timeout_at(deadline, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => Err(Error::Unavailable {
                reason: format!("{SLOTS_MAX} transactions are waiting for etcd already"),
            }),
        }
    }

    /// A slot for one transaction.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        link: &Link,
        permit: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> Result<HeldSlot, Failure> {
        let free = self.free().pop();
        let slot = match free {
            Some(slot) => slot,
            None => self.make(link, deadline).await?,
        };
        Ok(HeldSlot {
            key: format!("{}{}", self.prefix(), slot.number),
            slot,
            in_doubt: false,
            slots: self.clone(),
            _permit: permit,
        })
    }

    /// Writes a new slot. An attempt whose outcome is unknown may be carried out at any time later, so each
    /// one has a number of its own, and only that of the one that was answered is used.
    async fn make(&self, link: &Link, deadline: Instant) -> Result<Slot, Failure> {
        let mut backoff = Backoff::new(20, 500);
        loop {
            let number = self.slots_made.fetch_add(1, Ordering::Relaxed);
            let key = format!("{}{number}", self.prefix());
            let made = link
                .attempt(
                    deadline,
                    |mut kv| async move { kv.put(key, UNUSED, None).await },
                )
                .await
                .and_then(|response| header_revision(response.header()));
            let failure = match made {
                Ok(written) => return Ok(Slot { number, written }),
                Err(failure) => failure,
            };
            let again = failure.is_passing() && backoff.waits + 1 < ATTEMPTS_MAX;
            if !again || !backoff.wait_before(deadline).await {
                return Err(failure);
            }
        }
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

/// A slot while one transaction holds it. Dropped in doubt, it is never used again.
#[derive(Debug)]
pub(super) struct HeldSlot {
    key: String,
    slot: Slot,
    in_doubt: bool,
    slots: Arc<Slots>,
    _permit: OwnedSemaphorePermit,
}

impl HeldSlot {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn written(&self) -> Revision {
        self.slot.written
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// A note that no other transaction ever writes. From now on the slot is in doubt.
    pub(super) fn new_note(&mut self) -> String {
        self.in_doubt = true;
        let number = self.slots.notes_made.fetch_add(1, Ordering::Relaxed);
        format!("{number}")
    }

    /// The condition that makes a transaction impossible once the slot has been written to or removed.
    pub(super) fn unwritten(&self) -> Compare {
        let written = to_etcd(self.slot.written);
        Compare::mod_revision(self.key.as_str(), CompareOp::Equal, written)
    }

    /// The slot is known again.
    pub(super) fn settle(&mut self, written: Revision) {
        self.slot.written = written;
        self.in_doubt = false;
    }

    /// A new slot in the place of one that is gone or in doubt.
    pub(super) async fn replace(&mut self, link: &Link, deadline: Instant) -> Result<(), Failure> {
        self.slot = self.slots.make(link, deadline).await?;
        self.key = format!("{}{}", self.slots.prefix(), self.slot.number);
        self.in_doubt = false;
        Ok(())
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        if !self.in_doubt {
            self.slots.free().push(self.slot);
        }
    }
}

/// Waits for the transactions under way, refuses new ones, and removes the slots.
pub(super) async fn close(link: &Link, slots: &Slots) {
    let deadline = Instant::now() + link.request_timeout + link.settle_timeout;
    let all_ended = timeout_at(deadline, slots.under_way.acquire_many(SLOTS_MAX)).await;
    slots.under_way.close();
    // Whoever still has a fate to find out needs its slot.
    if !matches!(all_ended, Ok(Ok(_))) {
        return;
    }
    let prefix = slots.prefix();
    let removed = link
        .retrying(|mut kv| {
            let prefix = prefix.clone();
            async move {
                kv.delete(prefix, Some(DeleteOptions::new().with_prefix()))
                    .await
            }
        })
        .await;
    if let Err(failure) = removed {
        tracing::debug!(reason = failure.reason, "slots are left in etcd");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_in_doubt_is_never_used_again() {
        let slots = Arc::new(Slots::new());
        let take = || async {
            let permit = slots.under_way.clone().acquire_owned().await.unwrap();
            let free = slots.free.lock().unwrap().pop();
            HeldSlot {
                key: String::new(),
                slot: free.unwrap_or(Slot {
                    number: 7,
                    written: Revision::new(1),
                }),
                in_doubt: false,
                slots: slots.clone(),
                _permit: permit,
            }
        };
        let mut slot = take().await;
        slot.new_note();
        slot.settle(Revision::new(3));
        drop(slot);
        let mut slot = take().await;
        assert_eq!(slot.written(), Revision::new(3));
        assert_ne!(slot.new_note(), UNUSED);
        drop(slot);
        assert!(slots.free.lock().unwrap().is_empty());
        assert_eq!(slots.under_way.available_permits(), SLOTS_MAX as usize);
    }
}
