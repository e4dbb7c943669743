//! The task that fills all caches from the store: it lists everything once, then applies the change stream, and lists
//! again if the stream cannot be resumed. Corresponds to client-go's `Reflector`, which upstream's cacher runs on etcd.
//!
//! Caches can be added while it runs: `additions` loads them beside the stream.
//!
//! Entry points: [`StoreReflector::start`] and [`StoreReflector::run`].

mod additions;
mod load;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rhumb_meta::{Backoff, ObjectKey, Revision, StoragePrefix};
use rhumb_store::{
    ChangeSet, ChangeStream, ChangeStreamEvent, ExpectedRevision, KeyChange, Store, Transaction,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use additions::CacheAdditions;

use crate::manager::CacheManagerState;
use crate::resource_cache::CacheInner;
use crate::snapshot::CacheContents;
use crate::watch::WatchEnd;
use crate::{CacheHealth, Error, ResourceCache, ResourceCacheConfig, StringInterner};

/// Most waiters are woken by the change they wait for. Only if it does not arrive within this time, the reflector
/// requests a progress notification from the store.
const PROGRESS_REQUEST_DELAY: Duration = Duration::from_millis(2);

/// The key that is written below the root if the store does not support progress notifications: the change stream
/// then delivers this write.
const PROGRESS_MARKER_KEY: &str = "rhumb-progress";

/// Delay before the marker key is written: usually another change arrives first.
const PROGRESS_MARKER_DELAY: Duration = Duration::from_millis(50);

/// Interval of further requests while tasks wait for a revision that the store has not reached.
const PROGRESS_REQUEST_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which the history of idle resources is trimmed and unused indexes are dropped.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(15);

/// Attempts to load everything if the store compacts the revision that is being read.
const LOAD_ATTEMPTS: usize = 5;

const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// Requests of the cache manager to the store reflector.
#[derive(Debug)]
pub(crate) enum ReflectorCommand {
    Add(
        ResourceCacheConfig,
        oneshot::Sender<Result<ResourceCache, Error>>,
    ),
    Remove(StoragePrefix, oneshot::Sender<()>),
    /// Removes a cache that was added for a caller that has given up.
    Discard(ResourceCache),
}

/// Lists the store and applies its change stream to all caches.
#[derive(Debug)]
pub(crate) struct StoreReflector {
    store: Arc<dyn Store>,
    shared: Arc<CacheManagerState>,
    commands: mpsc::UnboundedReceiver<ReflectorCommand>,
    interner: StringInterner,
    /// The caches that are being added.
    additions: CacheAdditions,
    /// Whether the store supports progress notifications on demand; older etcd servers do not.
    supports_progress: bool,
}

impl StoreReflector {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        shared: Arc<CacheManagerState>,
        commands: mpsc::UnboundedReceiver<ReflectorCommand>,
    ) -> Self {
        StoreReflector {
            store,
            shared,
            commands,
            interner: StringInterner::new(),
            additions: CacheAdditions::default(),
            supports_progress: true,
        }
    }

    /// Fills the caches up to the current revision, with as much history as is configured and available.
    pub(crate) async fn start(
        &mut self,
        resources: Vec<ResourceCacheConfig>,
    ) -> Result<Box<dyn ChangeStream>, Error> {
        for resource in resources {
            self.check_prefix(&resource.prefix)?;
            self.shared
                .insert(self.new_cache(resource, CacheContents::default()));
        }
        let current = self.store.revision().await?;
        if let Some(stream) = self.start_from_history(current).await {
            return Ok(stream);
        }
        let mut attempts_left = LOAD_ATTEMPTS;
        loop {
            attempts_left -= 1;
            let current = self.store.revision().await?;
            match self.load_all(current).await {
                // The revision was compacted while it was being read.
                Err(rhumb_store::Error::Compacted { .. }) if attempts_left > 0 => {}
                read => return Ok(read?),
            }
        }
    }

    /// Loads the contents of an older revision and applies the changes since then, so that the history contains them.
    /// `None` if the store has compacted that revision or does not support progress notifications. Any other store
    /// error shows again when the current revision is loaded.
    async fn start_from_history(&mut self, current: Revision) -> Option<Box<dyn ChangeStream>> {
        let wanted = current
            .get()
            .saturating_sub(self.shared.options.startup_history_revisions);
        let wanted = Revision::new(wanted.max(1));
        if wanted >= current {
            return None;
        }
        let read = match self.load_all(wanted).await {
            Err(rhumb_store::Error::Compacted { oldest, .. }) if oldest < current => {
                self.load_all(oldest).await
            }
            other => other,
        };
        let Ok(mut stream) = read else {
            return None;
        };
        self.request_progress(&mut *stream).await;
        if !self.supports_progress {
            return None;
        }
        while self.applied() < current {
            match stream.next().await {
                Ok(event) => self.handle_event(event),
                Err(error) => {
                    tracing::info!(%error, "change history is unavailable; starting from the current state");
                    return None;
                }
            }
        }
        Some(stream)
    }

    /// Keeps the caches in sync with the store until the manager is closed.
    pub(crate) async fn run(mut self, mut stream: Box<dyn ChangeStream>) {
        while let Some(error) = self.follow(&mut *stream).await {
            stream = self.recover(error).await;
        }
    }

    /// Applies changes until the stream fails. `None` when the manager was dropped.
    async fn follow(&mut self, stream: &mut dyn ChangeStream) -> Option<rhumb_store::Error> {
        let shared = Arc::clone(&self.shared);
        let mut request_at: Option<Instant> = None;
        let interval_max = shared.options.compaction_interval;
        let mut maintenance = interval(MAINTENANCE_INTERVAL.min(interval_max));
        maintenance.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Yield regularly: a stream that is always ready would starve other tasks.
            tokio::task::coop::consume_budget().await;
            let request_time = request_at.unwrap_or_else(Instant::now);
            tokio::select! {
                event = stream.next() => match event {
                    Ok(event) => self.handle_event(event),
                    Err(error) => return Some(error),
                },
                command = self.commands.recv() => self.handle_command(command?),
                load = self.additions.next_load() => self.handle_load(load),
                () = shared.progress.waiter_added.notified(), if request_at.is_none() => {
                    let delay = if self.supports_progress { PROGRESS_REQUEST_DELAY } else { PROGRESS_MARKER_DELAY };
                    request_at = Some(Instant::now() + delay);
                }
                () = sleep_until(request_time), if request_at.is_some() => {
                    request_at = None;
                    if shared.progress.has_waiters() {
                        if self.supports_progress {
                            self.request_progress(stream).await;
                        } else {
                            self.write_progress_marker();
                        }
                        request_at = Some(Instant::now() + PROGRESS_REQUEST_INTERVAL);
                    }
                }
                _ = maintenance.tick() => shared.run_maintenance(),
            }
        }
    }

    /// Writes a marker key below the root, for stores without progress notifications. When the change stream delivers
    /// this write, it has delivered every earlier write as well.
    fn write_progress_marker(&self) {
        let store = Arc::clone(&self.store);
        let key = format!(
            "{}/{PROGRESS_MARKER_KEY}",
            self.shared.root.trim_end_matches('/')
        );
        let value = Bytes::from(self.applied().to_string());
        tokio::spawn(async move {
            let put = Transaction::new().put(key, value, ExpectedRevision::Any);
            if let Err(error) = store.commit(put).await {
                tracing::debug!(%error, "failed to write the progress marker; retrying while reads wait");
            }
        });
    }

    async fn request_progress(&mut self, stream: &mut dyn ChangeStream) {
        match stream.request_progress().await {
            Ok(()) => {}
            Err(rhumb_store::Error::Unsupported { reason }) => {
                tracing::warn!(
                    reason,
                    "the store does not report progress; writing a marker key to confirm consistent reads"
                );
                self.supports_progress = false;
            }
            // A broken stream returns its error from `next`; otherwise the request is repeated.
            Err(error) => {
                tracing::debug!(%error, "failed to request progress of the change stream");
            }
        }
    }

    fn handle_event(&mut self, event: ChangeStreamEvent) {
        match event {
            ChangeStreamEvent::Changes(set) => {
                self.apply(&set);
                self.shared.progress.advance(set.revision);
            }
            ChangeStreamEvent::Progress(revision) => {
                if revision > self.applied() {
                    self.shared.progress.advance(revision);
                }
            }
        }
    }

    /// Applies to each cache its part of a transaction. Keys that belong to no cache are ignored.
    fn apply(&mut self, set: &ChangeSet) {
        let mut parts: Vec<(ResourceCache, Vec<StoredChange>)> = Vec::with_capacity(1);
        for change in set.changes.iter() {
            let cache = self.shared.cache_for_key(change.key());
            let stored = match change {
                KeyChange::Put { value, .. } => Some(value.clone()),
                KeyChange::Delete { .. } => None,
            };
            if let Some(added) = self.additions.find(change.key(), cache.as_ref()) {
                if let Some((_, key)) = parse_object_key(change.key())(added.cache().clone()) {
                    added.record(set.revision, key, stored.as_ref(), &mut self.interner);
                }
                continue;
            }
            let Some((cache, key)) = cache.and_then(parse_object_key(change.key())) else {
                continue;
            };
            let existing = parts.iter_mut().find(|(other, _)| other.is_same(&cache));
            match existing {
                Some((_, part)) => part.push((key, stored)),
                None => parts.push((cache, vec![(key, stored)])),
            }
        }
        for (cache, part) in parts {
            cache.inner().apply(set.revision, &part, &mut self.interner);
        }
    }

    fn handle_command(&mut self, command: ReflectorCommand) {
        match command {
            ReflectorCommand::Add(resource, reply) => {
                // They must not block the prefix.
                self.additions.cancel_abandoned();
                match self.check_prefix(&resource.prefix) {
                    Ok(()) => self.begin_addition(resource, reply),
                    // The send fails if the caller has given up.
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            ReflectorCommand::Remove(prefix, reply) => {
                self.additions.cancel(&prefix);
                self.remove_cache(prefix.as_str());
                let _ = reply.send(());
            }
            ReflectorCommand::Discard(cache) => self.discard(&cache),
        }
    }

    /// Removes this cache; another cache of the same prefix remains.
    fn discard(&self, cache: &ResourceCache) {
        let prefix = cache.prefix().as_str();
        let current = self.shared.cache(prefix);
        if current.is_some_and(|current| current.is_same(cache)) {
            self.remove_cache(prefix);
        }
    }

    fn remove_cache(&self, prefix: &str) {
        if let Some(cache) = self.shared.remove(prefix) {
            cache.inner().end_watches(WatchEnd::Removed);
        }
    }

    /// Opens a new stream after the last one failed: resumes at the applied revision if the store still has it,
    /// otherwise loads everything again. Retries with backoff until it succeeds.
    async fn recover(&mut self, error: rhumb_store::Error) -> Box<dyn ChangeStream> {
        tracing::warn!(%error, "change stream of the caches failed; reconnecting");
        let mut error = error;
        let mut backoff = Backoff::new(BACKOFF_MIN, self.shared.options.backoff_max);
        loop {
            self.shared.health.send_replace(CacheHealth::Recovering {
                reason: error.to_string(),
            });
            let reopened = match error {
                rhumb_store::Error::Unavailable { .. } => self.resume().await,
                _ => self.reload().await,
            };
            match reopened {
                Ok(stream) => {
                    self.shared.health.send_replace(CacheHealth::Synced);
                    tracing::info!(revision = %self.applied(), "change stream of the caches recovered");
                    return stream;
                }
                Err(failure) => error = failure,
            }
            sleep(backoff.next_delay()).await;
        }
    }

    async fn resume(&self) -> rhumb_store::Result<Box<dyn ChangeStream>> {
        self.store
            .changes_gating_commits(&self.shared.root, self.applied())
            .await
    }

    async fn reload(&mut self) -> rhumb_store::Result<Box<dyn ChangeStream>> {
        let revision = self.store.revision().await?;
        if revision < self.applied() {
            let applied = self.applied();
            tracing::error!(%revision, %applied, "store revision went backwards; reloading all caches");
        }
        self.load_all(revision).await
    }

    fn check_prefix(&self, prefix: &StoragePrefix) -> Result<(), Error> {
        let prefix = prefix.as_str();
        if !prefix.starts_with(&self.shared.root) {
            return Err(Error::OutsideRoot {
                prefix: prefix.to_owned(),
                root: self.shared.root.clone(),
            });
        }
        if self.shared.cache(prefix).is_some() || self.additions.contains(prefix) {
            return Err(Error::AlreadyCached {
                prefix: prefix.to_owned(),
            });
        }
        Ok(())
    }

    fn new_cache(&self, resource: ResourceCacheConfig, contents: CacheContents) -> ResourceCache {
        ResourceCache::new(Arc::new(CacheInner::new(resource, &self.shared, contents)))
    }

    fn applied(&self) -> Revision {
        self.shared.progress.applied()
    }
}

/// An object key and the bytes stored after a change; `None` if the object was deleted.
type StoredChange = (ObjectKey, Option<Bytes>);

/// Parses a storage key into the object key of its cache. Invalid keys are logged and ignored.
fn parse_object_key(
    storage_key: &str,
) -> impl Fn(ResourceCache) -> Option<(ResourceCache, ObjectKey)> {
    move |cache| match cache.prefix().parse(storage_key) {
        Ok(key) => Some((cache, key)),
        Err(error) => {
            tracing::error!(%error, "invalid object key in the store; ignoring it");
            None
        }
    }
}
