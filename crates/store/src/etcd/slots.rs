//! The keys by which transactions are recognised later: see [`super::outcome`] for how.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, KeyValue, Txn, TxnOp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::OUTCOMES_PREFIX;
use super::backoff::random;
use super::convert::{Failure, to_etcd};
use super::link::{Link, answer};
use crate::types::prefix_end;
use crate::{Error, Result, Revision};

/// The most transactions under way at once. More wait for a slot.
const SLOTS_MAX: u32 = 256;

/// Slots that nobody has written to for a day belong to nobody.
const ABANDONED_AFTER_S: u64 = 24 * 60 * 60;

/// The slots of this instance.
pub(super) struct Slots {
    instance: String,
    free: Mutex<Vec<Slot>>,
    slots_made: AtomicU64,
    notes_made: AtomicU64,
    under_way: Arc<Semaphore>,
    /// Whether an answer was ever lost, so that a transaction may still be on its way.
    lost_any: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    number: u64,
    /// When it was last written, as far as we know; zero if never.
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
            lost_any: AtomicBool::new(false),
        }
    }

    fn prefix(&self) -> String {
        format!("{OUTCOMES_PREFIX}{}/", self.instance)
    }

    /// A slot for one transaction.
    pub(super) async fn acquire(self: &Arc<Self>, link: &Link) -> Result<HeldSlot> {
        let permit = self.under_way.clone().acquire_owned();
        let permit = match timeout(link.request_timeout, permit).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(Error::Closed),
            Err(_) => {
                return Err(Error::Unavailable {
                    reason: format!("{SLOTS_MAX} transactions are waiting for etcd already"),
                });
            }
        };
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let slot = free.unwrap_or_else(|| Slot {
            number: self.slots_made.fetch_add(1, Ordering::Relaxed),
            written: Revision::ZERO,
        });
        Ok(HeldSlot {
            key: format!("{}{}", self.prefix(), slot.number),
            slot,
            in_doubt: false,
            slots: self.clone(),
            _permit: permit,
        })
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

    /// A note that no other transaction ever writes. From now on the slot is in doubt.
    pub(super) fn new_note(&mut self) -> String {
        self.in_doubt = true;
        let number = self.slots.notes_made.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", now_s())
    }

    /// The condition that makes a transaction impossible once the slot has been written to.
    pub(super) fn unwritten(&self) -> Compare {
        let written = to_etcd(self.slot.written);
        Compare::mod_revision(self.key.as_str(), CompareOp::Equal, written)
    }

    /// The answer to the transaction was lost.
    pub(super) fn note_loss(&self) {
        self.slots.lost_any.store(true, Ordering::Relaxed);
    }

    /// The slot is known again.
    pub(super) fn settle(&mut self, written: Revision) {
        self.slot.written = written;
        self.in_doubt = false;
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        if !self.in_doubt {
            let mut free = self
                .slots
                .free
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            free.push(self.slot);
        }
    }
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Waits for the transactions under way, refuses new ones, and removes the slots if that is safe.
pub(super) async fn close(link: &Link, slots: &Slots) {
    let deadline = Instant::now() + link.request_timeout + link.settle_timeout;
    let all_ended = timeout_at(deadline, slots.under_way.acquire_many(SLOTS_MAX)).await;
    slots.under_way.close();
    // A slot that is gone looks like one that was never written to, as some late transaction may expect.
    if !matches!(all_ended, Ok(Ok(_))) || slots.lost_any.load(Ordering::Relaxed) {
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

/// Removes, in the background, what instances left behind that ended without [`close`].
pub(super) fn forget_dead_instances(link: Link) {
    tokio::spawn(async move {
        if let Err(failure) = forget_abandoned(&link, now_s()).await {
            tracing::debug!(reason = failure.reason, "old slots are left in etcd");
        }
    });
}

async fn forget_abandoned(link: &Link, now_s: u64) -> Result<(), Failure> {
    const BATCH: usize = 100;
    let mut start = OUTCOMES_PREFIX.as_bytes().to_vec();
    let end = prefix_end(&start).unwrap_or_default();
    loop {
        let page = GetOptions::new()
            .with_range(end.as_slice())
            .with_limit(BATCH as i64);
        let mut response = link.read(&start, page).await?;
        let more = response.more();
        let slots = response.take_kvs();
        let Some(last) = slots.last() else {
            return Ok(());
        };
        start = [last.key(), &[0]].concat();
        let old: Vec<&KeyValue> = slots
            .iter()
            .filter(|slot| is_abandoned(slot.value(), now_s))
            .collect();
        if !old.is_empty() {
            remove_unchanged(link, &old).await?;
        }
        if !more {
            return Ok(());
        }
    }
}

/// If one of them was written to meanwhile, all stay until next time.
async fn remove_unchanged(link: &Link, slots: &[&KeyValue]) -> Result<(), Failure> {
    let unchanged =
        |slot: &&KeyValue| Compare::mod_revision(slot.key(), CompareOp::Equal, slot.mod_revision());
    let transaction = Txn::new()
        .when(slots.iter().map(unchanged).collect::<Vec<_>>())
        .and_then(
            slots
                .iter()
                .map(|slot| TxnOp::delete(slot.key(), None))
                .collect::<Vec<_>>(),
        );
    answer(link.deadline(), link.kv().txn(transaction)).await?;
    Ok(())
}

/// A note begins with the time of its writing; what does not is not ours to remove.
fn is_abandoned(note: &[u8], now_s: u64) -> bool {
    let written_s = std::str::from_utf8(note)
        .ok()
        .and_then(|note| note.split('-').next())
        .and_then(|seconds| seconds.parse::<u64>().ok());
    written_s.is_some_and(|written_s| now_s.saturating_sub(written_s) > ABANDONED_AFTER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_abandoned_after_a_day_and_never_before() {
        let now_s = 10 * ABANDONED_AFTER_S;
        let day_ago_s = now_s - ABANDONED_AFTER_S;
        for (note, expected) in [
            (format!("{}-3", day_ago_s - 1), true),
            (format!("{}-3-fenced", day_ago_s - 1), true),
            (format!("{day_ago_s}-3"), false),
            (format!("{}-3", now_s + 100), false),
            ("something else".to_owned(), false),
        ] {
            assert_eq!(is_abandoned(note.as_bytes(), now_s), expected, "{note}");
        }
    }

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
                    written: Revision::ZERO,
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
        slot.new_note();
        drop(slot);
        assert!(slots.free.lock().unwrap().is_empty());
        assert_eq!(slots.under_way.available_permits(), SLOTS_MAX as usize);
    }
}
