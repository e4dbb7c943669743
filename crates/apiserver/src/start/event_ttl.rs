//! Event TTL: deletes Events that were not written for a while (upstream: `--event-ttl`, implemented with etcd leases).
//!
//! Each write restarts the TTL of an event, by this server's clock. For events written before the server started, the
//! newest timestamp in the object is used. Several servers on one store may try to delete the same event: the delete
//! requires the observed revision, so an event that was just written again is kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rhumb_cache::{
    EventKind, ResourceCache, RestartingWatchMessage, RestartingWatcher, WatchEvent, WatchRequest,
    WatchStart,
};
use rhumb_meta::{ObjectKey, Revision, Timestamp};
use rhumb_store::{Error, ExpectedRevision, Transaction};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use rhumb_registry::Registry;

/// How many events one transaction deletes, and the pause before the next one, which lets other writes through.
const BATCH: usize = 32;
const BATCH_PAUSE: Duration = Duration::from_millis(10);
/// Delay before a failed delete is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// The interval between two checks is a tenth of the TTL, within these bounds.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(100);
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// Spawns the task that deletes expired events. It ends with the server.
pub(super) fn spawn(registry: &Arc<Registry>, ttl: Duration) {
    let storage = registry
        .find("", "events")
        .and_then(|resource| resource.storage.clone());
    if let Some(storage) = storage {
        let expiry = EventExpiryQueue {
            ttl,
            deadlines: BTreeMap::new(),
        };
        tokio::spawn(run(Arc::downgrade(registry), storage.cache.clone(), expiry));
    }
}

async fn run(registry: Weak<Registry>, cache: ResourceCache, mut expiry: EventExpiryQueue) {
    let check_interval = (expiry.ttl / 10).clamp(CHECK_INTERVAL_MIN, CHECK_INTERVAL_MAX);
    let mut watcher = cache.watch_with_restarts(WatchRequest::everything(WatchStart::InitialList));
    while let Some(()) = read_list(&registry, &mut watcher, &mut expiry).await {
        let restarted = delete_expired_until_restart(
            &registry,
            &cache,
            &mut watcher,
            &mut expiry,
            check_interval,
        );
        if restarted.await.is_none() {
            return;
        }
    }
}

/// Reads the initial list of events into the queue. `None` if the server has been dropped.
async fn read_list(
    registry: &Weak<Registry>,
    watcher: &mut RestartingWatcher,
    expiry: &mut EventExpiryQueue,
) -> Option<()> {
    let mut previous = std::mem::take(&mut expiry.deadlines);
    while let RestartingWatchMessage::Event(event) = watcher.next().await? {
        let clock = &registry.upgrade()?.clock;
        let entry = event.entry();
        let expires_at = match previous.remove(&entry.revision()) {
            Some(deadline) => deadline.expires_at,
            None => {
                let age = age(entry.json_slice(), clock.wall());
                (clock.monotonic() + expiry.ttl).saturating_sub(age)
            }
        };
        let key = entry.key().clone();
        expiry
            .deadlines
            .insert(entry.revision(), EventDeadline { expires_at, key });
    }
    expiry.make_deadlines_monotonic();
    Some(())
}

/// Records writes and deletes expired events until the watch starts over. `None` if the server has been dropped.
async fn delete_expired_until_restart(
    registry: &Weak<Registry>,
    cache: &ResourceCache,
    watcher: &mut RestartingWatcher,
    expiry: &mut EventExpiryQueue,
    check_interval: Duration,
) -> Option<()> {
    let mut next_check = Instant::now();
    loop {
        tokio::select! {
            message = watcher.next() => match message? {
                RestartingWatchMessage::Event(event) => expiry.record_write(&event, registry.upgrade()?.clock.monotonic()),
                RestartingWatchMessage::InitialEventsEnd(_) => {}
                RestartingWatchMessage::Restarted => return Some(()),
            },
            () = sleep_until(next_check) => {
                let registry = registry.upgrade()?;
                let expired = expiry.take_expired(registry.clock.monotonic());
                let delay = if expired.len() < BATCH { check_interval } else { BATCH_PAUSE };
                if let Err(remaining) = delete(&registry, cache, expired).await {
                    expiry.requeue(remaining, registry.clock.monotonic() + RETRY_DELAY);
                }
                next_check = Instant::now() + delay;
            }
        }
    }
}

type ExpiredEvents = Vec<(Revision, ObjectKey)>;

/// Deletes events in one transaction, except those that were written or deleted meanwhile. Returns the events whose
/// delete failed for another reason.
async fn delete(
    registry: &Registry,
    cache: &ResourceCache,
    mut expired: ExpiredEvents,
) -> Result<(), ExpiredEvents> {
    while !expired.is_empty() {
        let name = |key: &ObjectKey| cache.prefix().object(key);
        let deletion = expired
            .iter()
            .fold(Transaction::new(), |all, (revision, key)| {
                all.delete(name(key), ExpectedRevision::At(*revision))
            });
        match registry.store.commit(deletion).await {
            Ok(_) => return Ok(()),
            Err(Error::Conflict(conflict)) => {
                let is_current = |revision: Revision, key: &ObjectKey| {
                    let entry = cache.get(key).ok().flatten();
                    entry.is_some_and(|entry| entry.revision() == revision)
                };
                expired.retain(|(revision, key)| {
                    name(key) != *conflict.key && is_current(*revision, key)
                });
            }
            Err(error) => {
                tracing::warn!(%error, events = expired.len(), "failed to delete expired events; retrying");
                return Err(expired);
            }
        }
    }
    Ok(())
}

/// Expiry times of all events, ordered by revision: an event that was written later expires later.
#[derive(Debug)]
struct EventExpiryQueue {
    ttl: Duration,
    deadlines: BTreeMap<Revision, EventDeadline>,
}

/// When an event expires, counted from its last write. The key is shared with the cache.
#[derive(Debug, PartialEq, Eq)]
struct EventDeadline {
    /// By the monotonic clock.
    expires_at: Duration,
    key: ObjectKey,
}

impl EventExpiryQueue {
    fn record_write(&mut self, event: &WatchEvent, now: Duration) {
        if let Some(previous) = event.previous() {
            self.deadlines.remove(&previous.revision());
        }
        if event.kind() != EventKind::Deleted {
            let expires_at = now + self.ttl;
            let key = event.entry().key().clone();
            self.deadlines
                .insert(event.revision(), EventDeadline { expires_at, key });
        }
    }

    /// Raises deadlines so that they never decrease with the revision: the order of writes is certain, the timestamps
    /// in events are not.
    fn make_deadlines_monotonic(&mut self) {
        let mut latest = Duration::ZERO;
        for deadline in self.deadlines.values_mut() {
            latest = latest.max(deadline.expires_at);
            deadline.expires_at = latest;
        }
    }

    /// Removes and returns the first expired events, at most one batch.
    fn take_expired(&mut self, now: Duration) -> ExpiredEvents {
        let mut expired = Vec::new();
        while let Some(first) = self.deadlines.first_entry()
            && first.get().expires_at <= now
            && expired.len() < BATCH
        {
            expired.push((*first.key(), first.remove().key));
        }
        expired
    }

    fn requeue(&mut self, remaining: ExpiredEvents, expires_at: Duration) {
        let remaining = remaining.into_iter();
        let remaining =
            remaining.map(|(revision, key)| (revision, EventDeadline { expires_at, key }));
        self.deadlines.extend(remaining);
    }
}

/// All timestamps in an Event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventTimestamps {
    metadata: EventMetadataTimestamps,
    event_time: Option<String>,
    first_timestamp: Option<String>,
    last_timestamp: Option<String>,
    series: Option<EventSeriesTimestamps>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventMetadataTimestamps {
    creation_timestamp: Option<String>,
    #[serde(default)]
    managed_fields: Vec<ManagedFieldsTimestamp>,
}

#[derive(Deserialize)]
struct ManagedFieldsTimestamp {
    time: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventSeriesTimestamps {
    last_observed_time: Option<String>,
}

/// Time since an event was last written, by its newest timestamp. Zero without a timestamp or with one in the future.
fn age(json: &[u8], now: Timestamp) -> Duration {
    let newest = serde_json::from_slice(json).ok().and_then(newest_timestamp);
    newest.map_or(Duration::ZERO, |newest| {
        now.saturating_duration_since(newest)
    })
}

fn newest_timestamp(times: EventTimestamps) -> Option<Timestamp> {
    let managed = times.metadata.managed_fields;
    let texts = [
        times.metadata.creation_timestamp,
        times.event_time,
        times.first_timestamp,
        times.last_timestamp,
        times.series.and_then(|series| series.last_observed_time),
    ];
    texts
        .into_iter()
        .chain(managed.into_iter().map(|managed| managed.time))
        .flatten()
        .filter_map(|text| text.parse().ok())
        .max()
}

#[cfg(test)]
mod tests;
