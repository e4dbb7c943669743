//! Caches that are being added: a task per cache loads its objects while the change stream goes on for all others. The
//! changes of the new resource are recorded meanwhile and applied to what was loaded.
//!
//! Entry points: [`StoreReflector::begin_addition`] and [`StoreReflector::handle_load`].

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use rhumb_meta::{ObjectKey, Revision, StoragePrefix};
use rhumb_store::Store;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::load::load_resource;
use super::{LOAD_ATTEMPTS, StoreReflector};
use crate::manager::CacheManagerState;
use crate::object_change::CachedObjectState;
use crate::snapshot::CacheContents;
use crate::{Error, EventKind, ResourceCache, ResourceCacheConfig, StringInterner};

/// Receives the added cache.
type AdditionReply = oneshot::Sender<Result<ResourceCache, Error>>;

/// The outcome of a load task.
type LoadOutcome = Result<(Id, Result<CacheContents, Error>), JoinError>;

/// The caches that are being added, and the tasks that load them. Dropping it aborts the tasks.
#[derive(Debug, Default)]
pub(super) struct CacheAdditions {
    pending: Vec<CacheAddition>,
    loads: JoinSet<Result<CacheContents, Error>>,
}

/// A cache that is being loaded and not visible yet.
#[derive(Debug)]
pub(super) struct CacheAddition {
    cache: ResourceCache,
    load: AbortHandle,
    /// The state of each object that has changed since the load began, and the revision of its last change. As nobody
    /// can watch the cache yet, earlier states are not needed: so there are at most as many as there are objects.
    changed: HashMap<ObjectKey, (Revision, CachedObjectState)>,
    /// `changed` has every change after this revision. Contents of an earlier one cannot be brought up to date.
    changed_since: Revision,
    reply: AdditionReply,
}

impl CacheAdditions {
    pub(super) fn contains(&self, prefix: &str) -> bool {
        let mut pending = self.pending.iter();
        pending.any(|addition| addition.cache.prefix().as_str() == prefix)
    }

    /// The addition that a storage key belongs to: the one with the longest matching prefix, unless that of the cache
    /// in use is longer.
    pub(super) fn find(
        &mut self,
        storage_key: &str,
        in_use: Option<&ResourceCache>,
    ) -> Option<&mut CacheAddition> {
        let length = |cache: &ResourceCache| cache.prefix().as_str().len();
        let length_min = in_use.map_or(0, length);
        self.pending
            .iter_mut()
            .filter(|addition| {
                let prefix = addition.cache.prefix().as_str();
                prefix.len() > length_min && storage_key.starts_with(prefix)
            })
            .max_by_key(|addition| length(&addition.cache))
    }

    /// Waits until a load task ends. Never returns while there is none. Cancel safe.
    pub(super) async fn next_load(&mut self) -> LoadOutcome {
        match self.loads.join_next_with_id().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    /// Stops loading a cache.
    pub(super) fn cancel(&mut self, prefix: &StoragePrefix) {
        let canceled = self
            .pending
            .extract_if(.., |addition| addition.cache.prefix() == prefix);
        for addition in canceled {
            addition.load.abort();
            let error = Error::RemovedWhileLoading {
                prefix: prefix.as_str().to_owned(),
            };
            // The send fails if the caller has given up.
            let _ = addition.reply.send(Err(error));
        }
    }

    /// Stops loading the caches whose callers have given up.
    pub(super) fn cancel_abandoned(&mut self) {
        let abandoned = self
            .pending
            .extract_if(.., |addition| addition.reply.is_closed());
        for addition in abandoned {
            addition.load.abort();
        }
    }

    fn take(&mut self, load: Id) -> Option<CacheAddition> {
        let mut pending = self.pending.iter();
        let index = pending.position(|addition| addition.load.id() == load)?;
        Some(self.pending.swap_remove(index))
    }
}

impl CacheAddition {
    pub(super) fn cache(&self) -> &ResourceCache {
        &self.cache
    }

    /// Records a change; `None` is a deletion.
    pub(super) fn record(
        &mut self,
        revision: Revision,
        key: ObjectKey,
        stored: Option<&Bytes>,
        interner: &mut StringInterner,
    ) {
        // Nobody gets an event of the change; only initial lists send this entry, as ADDED.
        let kind = EventKind::Added;
        let state = self
            .cache
            .inner()
            .project(&key, Ok(stored), revision, kind, interner);
        self.changed.insert(key, (revision, state));
    }

    /// Makes the loaded contents those of the later of `applied`, up to which all changes were recorded, and the
    /// revision at which they were loaded.
    fn bring_up_to_date(&mut self, contents: &mut CacheContents, applied: Revision) {
        let loaded_at = contents.revision;
        for (key, (revision, state)) in self.changed.drain() {
            if revision > loaded_at {
                contents.set(&key, state);
            }
        }
        contents.revision = loaded_at.max(applied);
    }
}

impl StoreReflector {
    /// Starts to load the cache of a further resource and to record the changes of its objects.
    pub(super) fn begin_addition(&mut self, resource: ResourceCacheConfig, reply: AdditionReply) {
        let cache = self.new_cache(resource, CacheContents::default());
        let addition = CacheAddition {
            load: self.spawn_load(&cache),
            cache,
            changed: HashMap::new(),
            changed_since: self.applied(),
            reply,
        };
        self.additions.pending.push(addition);
    }

    fn spawn_load(&mut self, cache: &ResourceCache) -> AbortHandle {
        let (store, shared) = (Arc::clone(&self.store), Arc::clone(&self.shared));
        let load = load_current(store, shared, cache.clone());
        self.additions.loads.spawn(load)
    }

    /// Loads all caches that are being added again, after the others were reloaded at `revision`, where the change
    /// stream continues. The changes before are unknown. A load that has begun earlier may have read another history,
    /// if the store was restored from a backup; its revision does not show that.
    pub(super) fn restart_loads(&mut self, revision: Revision) {
        for mut addition in std::mem::take(&mut self.additions.pending) {
            addition.load.abort();
            addition.load = self.spawn_load(&addition.cache);
            addition.changed.clear();
            addition.changed_since = revision;
            self.additions.pending.push(addition);
        }
    }

    /// Makes a loaded cache visible, unless its caller has given up.
    pub(super) fn handle_load(&mut self, outcome: LoadOutcome) {
        let (id, loaded) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                if !error.is_cancelled() {
                    tracing::error!(%error, "loading a cache panicked; the cache is not added");
                }
                drop(self.additions.take(error.id()));
                return;
            }
        };
        let Some(mut addition) = self.additions.take(id) else {
            return;
        };
        if addition.reply.is_closed() {
            return;
        }
        let mut contents = match loaded {
            Ok(contents) => contents,
            Err(error) => return drop(addition.reply.send(Err(error))),
        };
        if contents.revision < addition.changed_since {
            // The store returned a revision older than that of the caches, so changes are missing.
            addition.load = self.spawn_load(&addition.cache);
            self.additions.pending.push(addition);
            return;
        }
        addition.bring_up_to_date(&mut contents, self.applied());
        addition.cache.inner().set_initial_contents(contents);
        self.shared.insert(addition.cache.clone());
        if let Err(Ok(cache)) = addition.reply.send(Ok(addition.cache)) {
            // The caller has given up in the meantime.
            self.discard(&cache);
        }
    }
}

/// Loads the current objects of a resource, and builds the indexes.
async fn load_current(
    store: Arc<dyn Store>,
    shared: Arc<CacheManagerState>,
    cache: ResourceCache,
) -> Result<CacheContents, Error> {
    let mut attempts_left = LOAD_ATTEMPTS;
    let mut contents = loop {
        attempts_left -= 1;
        let revision = store.revision().await?;
        match load_resource(&*store, &shared, &cache, revision).await {
            // The revision was compacted while it was being read.
            Err(rhumb_store::Error::Compacted { .. }) if attempts_left > 0 => {}
            loaded => break loaded?,
        }
    };
    let indexes = Arc::clone(&cache.inner().latest().indexes);
    contents.rebuild_indexes(&indexes);
    Ok(contents)
}
