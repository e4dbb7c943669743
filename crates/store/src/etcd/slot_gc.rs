//! Removes outcome slots of instances that ended without closing.
//!
//! Only the clock of this process is used, because the clocks of two machines may differ by any amount. A slot that has
//! not changed for long enough while this process observed it is abandoned, or belongs to an instance that creates a
//! new one when it is gone.

use std::collections::HashMap;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::OUTCOMES_PREFIX;
use super::cluster_client::ClusterClient;
use super::convert::EtcdFailure;
use crate::entries::prefix_end;

/// How many slots are read or removed per call.
const SLOTS_PER_CALL: usize = 100;

/// How many slots are observed at a time. If there are more, the others follow after these are removed.
const OBSERVED_SLOTS_MAX: usize = 10_000;

/// Background task that removes abandoned slots; runs until it is dropped.
#[derive(Debug)]
pub(super) struct SlotGarbageCollector(JoinHandle<()>);

impl Drop for SlotGarbageCollector {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SlotGarbageCollector {
    pub(super) fn start(client: ClusterClient, abandoned_after: Duration) -> SlotGarbageCollector {
        SlotGarbageCollector(tokio::spawn(async move {
            let mut watched = SlotObservations::default();
            loop {
                if let Err(failure) =
                    collect_abandoned(&client, &mut watched, abandoned_after).await
                {
                    tracing::debug!(
                        reason = failure.reason,
                        "failed to remove abandoned outcome slots; retrying later"
                    );
                }
                tokio::time::sleep(abandoned_after / 4).await;
            }
        }))
    }
}

async fn collect_abandoned(
    client: &ClusterClient,
    watched: &mut SlotObservations,
    abandoned_after: Duration,
) -> Result<(), EtcdFailure> {
    let slots = all_slots(client).await?;
    let abandoned = watched.observe(slots, Instant::now(), abandoned_after);
    for batch in abandoned.chunks(SLOTS_PER_CALL) {
        remove_unchanged(client, batch).await?;
    }
    Ok(())
}

/// A slot as read from etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ObservedSlot {
    key: Vec<u8>,
    mod_revision: i64,
}

async fn all_slots(client: &ClusterClient) -> Result<Vec<ObservedSlot>, EtcdFailure> {
    let mut start = OUTCOMES_PREFIX.as_bytes().to_vec();
    let end = prefix_end(&start).unwrap_or_default();
    let mut slots = Vec::new();
    loop {
        let page = GetOptions::new()
            .with_range(end.as_slice())
            .with_limit(SLOTS_PER_CALL as i64)
            .with_keys_only();
        let response = client.read(&start, page).await?;
        slots.extend(response.kvs().iter().map(|kv| ObservedSlot {
            key: kv.key().to_vec(),
            mod_revision: kv.mod_revision(),
        }));
        match response.kvs().last() {
            Some(last) if response.more() && slots.len() < OBSERVED_SLOTS_MAX => {
                start = [last.key(), &[0]].concat();
            }
            _ => return Ok(slots),
        }
    }
}

/// Removes slots if none of them was written meanwhile; otherwise all stay until the next run.
async fn remove_unchanged(
    client: &ClusterClient,
    slots: &[ObservedSlot],
) -> Result<(), EtcdFailure> {
    let unchanged = |slot: &ObservedSlot| {
        Compare::mod_revision(slot.key.as_slice(), CompareOp::Equal, slot.mod_revision)
    };
    let delete = |slot: &ObservedSlot| TxnOp::delete(slot.key.as_slice(), None);
    let transaction = Txn::new()
        .when(slots.iter().map(unchanged).collect::<Vec<_>>())
        .and_then(slots.iter().map(delete).collect::<Vec<_>>());
    let deadline = client.deadline();
    client
        .call_once(deadline, |mut kv| async move { kv.txn(transaction).await })
        .await?;
    Ok(())
}

/// The mod revision of each slot, and since when it has been observed unchanged.
#[derive(Debug, Default)]
struct SlotObservations(HashMap<Vec<u8>, (i64, Instant)>);

impl SlotObservations {
    /// Records the current slots, and returns those that have not changed for `abandoned_after`.
    fn observe(
        &mut self,
        slots: Vec<ObservedSlot>,
        now: Instant,
        abandoned_after: Duration,
    ) -> Vec<ObservedSlot> {
        let mut before = std::mem::take(&mut self.0);
        let mut abandoned = Vec::new();
        for slot in slots {
            let since = match before.remove(&slot.key) {
                Some((mod_revision, since)) if mod_revision == slot.mod_revision => since,
                _ => now,
            };
            self.0.insert(slot.key.clone(), (slot.mod_revision, since));
            if now.duration_since(since) >= abandoned_after {
                abandoned.push(slot);
            }
        }
        abandoned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slots_unchanged_for_long_enough_are_abandoned() {
        const HOUR: Duration = Duration::from_secs(3600);
        let slots = |all: &[(&str, i64)]| -> Vec<ObservedSlot> {
            let slot = |&(key, mod_revision): &(&str, i64)| ObservedSlot {
                key: key.as_bytes().to_vec(),
                mod_revision,
            };
            all.iter().map(slot).collect()
        };
        let mut watched = SlotObservations::default();
        let begun = Instant::now();
        let mut look = |minutes: u64, all: &[(&str, i64)]| {
            let now = begun + Duration::from_secs(60 * minutes);
            watched.observe(slots(all), now, HOUR)
        };
        assert_eq!(look(0, &[("idle", 3), ("busy", 4)]), []);
        assert_eq!(look(59, &[("idle", 3), ("busy", 9), ("new", 10)]), []);
        assert_eq!(
            look(60, &[("idle", 3), ("busy", 9), ("new", 10)]),
            slots(&[("idle", 3)])
        );
        // A slot that was removed and created again counts as new.
        assert_eq!(look(61, &[("busy", 9)]), []);
        assert_eq!(
            look(119, &[("busy", 9), ("new", 10)]),
            slots(&[("busy", 9)])
        );
    }
}
