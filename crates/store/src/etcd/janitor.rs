//! Removes the slots that instances left behind which ended without closing.
//!
//! No clock but this process's own is looked at: those of two machines may differ by any amount. A slot that
//! has not been written to for as long as we have been watching it belongs to nobody, or to somebody who
//! makes a new one when it is gone.

use std::collections::HashMap;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::OUTCOMES_PREFIX;
use super::convert::Failure;
use super::link::Link;
use crate::types::prefix_end;

/// How many slots are read or removed at once.
const BATCH: usize = 100;

/// How many slots are watched at once. If there are more, the others get their turn later.
const WATCHED_MAX: usize = 10_000;

/// Runs until it is dropped.
#[derive(Debug)]
pub(super) struct Janitor(JoinHandle<()>);

impl Drop for Janitor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Janitor {
    pub(super) fn start(link: Link, abandoned_after: Duration) -> Janitor {
        Janitor(tokio::spawn(async move {
            let mut watched = Watched::default();
            loop {
                if let Err(failure) = tidy(&link, &mut watched, abandoned_after).await {
                    tracing::debug!(reason = failure.reason, "old slots are left in etcd");
                }
                tokio::time::sleep(abandoned_after / 4).await;
            }
        }))
    }
}

async fn tidy(
    link: &Link,
    watched: &mut Watched,
    abandoned_after: Duration,
) -> Result<(), Failure> {
    let slots = all_slots(link).await?;
    let abandoned = watched.look(slots, Instant::now(), abandoned_after);
    for batch in abandoned.chunks(BATCH) {
        remove_unchanged(link, batch).await?;
    }
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SeenSlot {
    key: Vec<u8>,
    mod_revision: i64,
}

async fn all_slots(link: &Link) -> Result<Vec<SeenSlot>, Failure> {
    let mut start = OUTCOMES_PREFIX.as_bytes().to_vec();
    let end = prefix_end(&start).unwrap_or_default();
    let mut slots = Vec::new();
    loop {
        let page = GetOptions::new()
            .with_range(end.as_slice())
            .with_limit(BATCH as i64)
            .with_keys_only();
        let response = link.read(&start, page).await?;
        slots.extend(response.kvs().iter().map(|kv| SeenSlot {
            key: kv.key().to_vec(),
            mod_revision: kv.mod_revision(),
        }));
        match response.kvs().last() {
            Some(last) if response.more() && slots.len() < WATCHED_MAX => {
                start = [last.key(), &[0]].concat();
            }
            _ => return Ok(slots),
        }
    }
}

/// If one of them was written to meanwhile, all stay until next time.
async fn remove_unchanged(link: &Link, slots: &[SeenSlot]) -> Result<(), Failure> {
    let unchanged = |slot: &SeenSlot| {
        Compare::mod_revision(slot.key.as_slice(), CompareOp::Equal, slot.mod_revision)
    };
    let delete = |slot: &SeenSlot| TxnOp::delete(slot.key.as_slice(), None);
    let transaction = Txn::new()
        .when(slots.iter().map(unchanged).collect::<Vec<_>>())
        .and_then(slots.iter().map(delete).collect::<Vec<_>>());
    let deadline = link.deadline();
    link.attempt(deadline, |mut kv| async move { kv.txn(transaction).await })
        .await?;
    Ok(())
}

/// Since when each slot has not changed, as far as we have seen.
#[derive(Debug, Default)]
struct Watched(HashMap<Vec<u8>, (i64, Instant)>);

impl Watched {
    /// Takes in what the slots are now, and gives those that have not changed for long enough.
    fn look(
        &mut self,
        slots: Vec<SeenSlot>,
        now: Instant,
        abandoned_after: Duration,
    ) -> Vec<SeenSlot> {
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
    fn only_what_has_not_changed_for_long_enough_is_abandoned() {
        const HOUR: Duration = Duration::from_secs(3600);
        let slots = |all: &[(&str, i64)]| -> Vec<SeenSlot> {
            let slot = |&(key, mod_revision): &(&str, i64)| SeenSlot {
                key: key.as_bytes().to_vec(),
                mod_revision,
            };
            all.iter().map(slot).collect()
        };
        let mut watched = Watched::default();
        let begun = Instant::now();
        let mut look = |minutes: u64, all: &[(&str, i64)]| {
            let now = begun + Duration::from_secs(60 * minutes);
            watched.look(slots(all), now, HOUR)
        };
        assert_eq!(look(0, &[("idle", 3), ("busy", 4)]), []);
        assert_eq!(look(59, &[("idle", 3), ("busy", 9), ("new", 10)]), []);
        assert_eq!(
            look(60, &[("idle", 3), ("busy", 9), ("new", 10)]),
            slots(&[("idle", 3)])
        );
        // One that was gone and has come back is another.
        assert_eq!(look(61, &[("busy", 9)]), []);
        assert_eq!(
            look(119, &[("busy", 9), ("new", 10)]),
            slots(&[("busy", 9)])
        );
    }
}
