//! Events expire: one that nobody has written for a while is deleted.
//!
//! The time of an event starts anew with each write, by this server's clock. Of events that are older than the
//! server, only what they say themselves is known. Several servers on one store may all try to delete the same
//! event: it is deleted at the revision that was seen, so that one that was just written again stays.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rhumb_cache::{Cache, Event, EventKind, Message, Start, WatchEnd, WatchRequest, Watcher};
use rhumb_meta::{ObjectKey, Revision, Timestamp};
use rhumb_store::{Error, Expect, Transaction};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use crate::Api;

/// How many events one transaction deletes, and the pause before the next: other writes go in between.
const BATCH: usize = 32;
const BATCH_PAUSE: Duration = Duration::from_millis(10);
/// How soon it is tried again where the store did not take a deletion.
const RETRY: Duration = Duration::from_secs(5);
/// The pause between two looks is a tenth of the time that events have, within these bounds.
const LOOK_MIN: Duration = Duration::from_millis(100);
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Deletes what has expired, for as long as there is a server.
pub(super) fn keep(api: &Arc<Api>, ttl: Duration) {
    let storage = api
        .registry
        .find("", "events")
        .and_then(|resource| resource.storage.as_ref());
    if let Some(storage) = storage {
        let expiry = Expiry {
            ttl,
            written: BTreeMap::new(),
        };
        tokio::spawn(run(Arc::downgrade(api), storage.cache.clone(), expiry));
    }
}

async fn run(api: Weak<Api>, cache: Cache, mut expiry: Expiry) {
    let look_pause = (expiry.ttl / 10).clamp(LOOK_MIN, LOOK_MAX);
    while let Ok(mut watcher) = cache.watch(WatchRequest::everything(Start::List)) {
        let Some(()) = read_list(&api, &mut watcher, &mut expiry).await else {
            return;
        };
        match follow(&api, &cache, &mut watcher, &mut expiry, look_pause).await {
            Some(WatchEnd::Expired) => {}
            _ => return,
        }
    }
}

/// Learns what there is. `None` when there is no server any more.
async fn read_list(api: &Weak<Api>, watcher: &mut Watcher, expiry: &mut Expiry) -> Option<()> {
    let mut before = std::mem::take(&mut expiry.written);
    while let Ok(Message::Event(event)) = watcher.next().await {
        let clock = &api.upgrade()?.clock;
        let entry = event.entry();
        let due = match before.remove(&entry.revision()) {
            Some(known) => known.due,
            None => {
                let age = age(entry.json_slice(), clock.wall());
                (clock.monotonic() + expiry.ttl).saturating_sub(age)
            }
        };
        let key = entry.key().clone();
        expiry
            .written
            .insert(entry.revision(), Written { due, key });
    }
    expiry.settle();
    Some(())
}

/// Remembers writes and deletes what is due, until the watch ends. `None` when there is no server any more.
async fn follow(
    api: &Weak<Api>,
    cache: &Cache,
    watcher: &mut Watcher,
    expiry: &mut Expiry,
    look_pause: Duration,
) -> Option<WatchEnd> {
    let mut next_look = Instant::now();
    loop {
        tokio::select! {
            message = watcher.next() => match message {
                Ok(Message::Event(event)) => expiry.note(&event, api.upgrade()?.clock.monotonic()),
                Ok(Message::InitialEnd(_)) => {}
                Err(end) => return Some(end),
            },
            () = sleep_until(next_look) => {
                let api = api.upgrade()?;
                let due = expiry.take_due(api.clock.monotonic());
                let pause = if due.len() < BATCH { look_pause } else { BATCH_PAUSE };
                if let Err(left) = delete(&api, cache, due).await {
                    expiry.put_back(left, api.clock.monotonic() + RETRY);
                }
                next_look = Instant::now() + pause;
            }
        }
    }
}

type Due = Vec<(Revision, ObjectKey)>;

/// Deletes events in one transaction, but for those that were written or deleted meanwhile. What the store did not
/// take for another reason comes back.
async fn delete(api: &Api, cache: &Cache, mut due: Due) -> Result<(), Due> {
    while !due.is_empty() {
        let name = |key: &ObjectKey| cache.prefix().object(key);
        let deletion = due.iter().fold(Transaction::new(), |all, (revision, key)| {
            all.delete(name(key), Expect::At(*revision))
        });
        match api.store.commit(deletion).await {
            Ok(_) => return Ok(()),
            Err(Error::Conflict(conflict)) => {
                let is_current = |revision: Revision, key: &ObjectKey| {
                    let entry = cache.get(key).ok().flatten();
                    entry.is_some_and(|entry| entry.revision() == revision)
                };
                due.retain(|(revision, key)| {
                    name(key) != *conflict.key && is_current(*revision, key)
                });
            }
            Err(error) => {
                tracing::warn!(%error, "events that have expired are not deleted yet");
                return Err(due);
            }
        }
    }
    Ok(())
}

/// When each event is to go. By revision: what was written later goes later.
#[derive(Debug)]
struct Expiry {
    ttl: Duration,
    written: BTreeMap<Revision, Written>,
}

/// An event as it was last written. Its key is shared with the cache.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    /// By the monotonic clock.
    due: Duration,
    key: ObjectKey,
}

impl Expiry {
    fn note(&mut self, event: &Event, now: Duration) {
        if let Some(previous) = event.previous() {
            self.written.remove(&previous.revision());
        }
        if event.kind() != EventKind::Deleted {
            let due = now + self.ttl;
            let key = event.entry().key().clone();
            self.written.insert(event.revision(), Written { due, key });
        }
    }

    /// An event was not written before one of a lower revision was, whatever it says itself.
    fn settle(&mut self) {
        let mut latest = Duration::ZERO;
        for written in self.written.values_mut() {
            latest = latest.max(written.due);
            written.due = latest;
        }
    }

    /// The first of those whose time has come.
    fn take_due(&mut self, now: Duration) -> Due {
        let mut due = Vec::new();
        while let Some(first) = self.written.first_entry()
            && first.get().due <= now
            && due.len() < BATCH
        {
            due.push((*first.key(), first.remove().key));
        }
        due
    }

    fn put_back(&mut self, left: Due, due: Duration) {
        let left = left.into_iter();
        let left = left.map(|(revision, key)| (revision, Written { due, key }));
        self.written.extend(left);
    }
}

/// The times that an event tells.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    metadata: MetadataTimes,
    event_time: Option<String>,
    first_timestamp: Option<String>,
    last_timestamp: Option<String>,
    series: Option<SeriesTimes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataTimes {
    creation_timestamp: Option<String>,
    #[serde(default)]
    managed_fields: Vec<ManagedTimes>,
}

#[derive(Deserialize)]
struct ManagedTimes {
    time: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeriesTimes {
    last_observed_time: Option<String>,
}

/// How long ago an event was last written, by the newest time that it tells. One that tells none is new, and so is
/// one from the future.
fn age(json: &[u8], now: Timestamp) -> Duration {
    let newest = serde_json::from_slice(json).ok().and_then(newest);
    newest.map_or(Duration::ZERO, |newest| {
        now.saturating_duration_since(newest)
    })
}

fn newest(times: Times) -> Option<Timestamp> {
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
