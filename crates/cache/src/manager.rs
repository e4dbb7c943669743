//! The entry point of the crate: owns the caches of all resources and the task that fills them from the store.

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;

use rhumb_meta::{Revision, StoragePrefix};
use rhumb_store::Store;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::applied_revision::AppliedRevision;
use crate::compacted_revision::CompactedRevision;
use crate::index::{IndexMemoryBudget, IndexedAttribute};
use crate::revision_query::CoalescedRevisionQuery;
use crate::store_reflector::{ReflectorCommand, StoreReflector};
use crate::watch::WatchEnd;
use crate::{CacheOptions, Error, ObjectProjector, ResourceCache};

/// What to cache: the objects of one resource, stored below a prefix.
#[derive(Debug, Clone)]
pub struct ResourceCacheConfig {
    pub prefix: StoragePrefix,
    pub projector: Arc<dyn ObjectProjector>,
    /// Labels and fields to index, so that lists need not examine all objects.
    pub indexes: Vec<IndexedAttribute>,
}

/// Whether the caches are in sync with the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheHealth {
    /// The change stream is established.
    Synced,
    /// The change stream failed; stale contents are served until it is re-established.
    Recovering { reason: String },
    /// The manager was closed.
    Closed,
}

impl CacheHealth {
    pub fn is_ready(&self) -> bool {
        *self == CacheHealth::Synced
    }
}

/// The caches of all resources, and the revision that all of them have applied.
///
/// Cheap to clone; all clones share one manager. It stops when it is closed or the last clone is dropped.
#[derive(Debug, Clone)]
pub struct CacheManager {
    inner: Arc<CacheManagerInner>,
}

/// Shared by all clones of a [`CacheManager`]; stops the store reflector when dropped.
#[derive(Debug)]
struct CacheManagerInner {
    shared: Arc<CacheManagerState>,
    store: Arc<dyn Store>,
    revision_query: CoalescedRevisionQuery,
    /// Unbounded, so that a command can be sent while a lock is held and in `drop`. Commands are rare: one per kind
    /// that is added or removed.
    commands: mpsc::UnboundedSender<ReflectorCommand>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

/// State shared by the manager and its store reflector.
#[derive(Debug)]
pub(crate) struct CacheManagerState {
    pub(crate) root: String,
    pub(crate) options: Arc<CacheOptions>,
    pub(crate) progress: Arc<AppliedRevision>,
    pub(crate) compacted_revision: Arc<CompactedRevision>,
    pub(crate) index_budget: Arc<IndexMemoryBudget>,
    pub(crate) health: watch::Sender<CacheHealth>,
    /// By prefix. Modified only by the store reflector.
    caches: RwLock<HashMap<Box<str>, ResourceCache>>,
}

impl CacheManagerState {
    pub(crate) fn cache(&self, prefix: &str) -> Option<ResourceCache> {
        self.caches().get(prefix).cloned()
    }

    pub(crate) fn all_caches(&self) -> Vec<ResourceCache> {
        self.caches().values().cloned().collect()
    }

    pub(crate) fn insert(&self, cache: ResourceCache) {
        let mut caches = self.caches.write();
        caches.insert(cache.prefix().as_str().into(), cache);
    }

    pub(crate) fn remove(&self, prefix: &str) -> Option<ResourceCache> {
        let mut caches = self.caches.write();
        caches.remove(prefix)
    }

    /// Periodic maintenance of all caches.
    pub(crate) fn run_maintenance(&self) {
        let now = self.options.clock.monotonic();
        let interval = self.options.compaction_interval;
        self.compacted_revision
            .advance(self.progress.applied(), now, interval);
        for cache in self.all_caches() {
            cache.inner().run_maintenance();
        }
    }

    /// The cache that a storage key belongs to: the one with the longest matching prefix.
    pub(crate) fn cache_for_key(&self, key: &str) -> Option<ResourceCache> {
        let caches = self.caches();
        let mut ends = key.rmatch_indices('/');
        ends.find_map(|(index, _)| caches.get(&key[..=index]).cloned())
    }

    fn caches(&self) -> parking_lot::RwLockReadGuard<'_, HashMap<Box<str>, ResourceCache>> {
        self.caches.read()
    }

    fn close(&self) {
        self.health.send_replace(CacheHealth::Closed);
        for cache in self.all_caches() {
            cache.inner().end_watches(WatchEnd::Closing);
        }
    }
}

impl CacheManager {
    /// Loads everything below `root` (`/registry/`) and applies its changes from then on.
    ///
    /// The caches are complete when this returns. It fails if the store cannot be read.
    pub async fn start(
        store: Arc<dyn Store>,
        root: &str,
        resources: Vec<ResourceCacheConfig>,
        options: CacheOptions,
    ) -> Result<CacheManager, Error> {
        let root = format!("{}/", root.trim_end_matches('/'));
        let shared = Arc::new(CacheManagerState {
            root,
            options: Arc::new(options),
            progress: Arc::default(),
            compacted_revision: Arc::default(),
            index_budget: Arc::default(),
            health: watch::Sender::new(CacheHealth::Synced),
            caches: RwLock::default(),
        });
        let (commands, received) = mpsc::unbounded_channel();
        let mut reader = StoreReflector::new(Arc::clone(&store), Arc::clone(&shared), received);
        let stream = reader.start(resources).await?;
        let reader = Mutex::new(Some(tokio::spawn(reader.run(stream))));
        let handle = CacheManagerInner {
            shared,
            store,
            revision_query: CoalescedRevisionQuery::default(),
            commands,
            reader,
        };
        Ok(CacheManager {
            inner: Arc::new(handle),
        })
    }

    /// The cache of a resource, if there is one.
    pub fn cache(&self, prefix: &StoragePrefix) -> Option<ResourceCache> {
        self.inner.shared.cache(prefix.as_str())
    }

    /// Adds the cache of another resource, such as a custom resource. It is complete when this returns.
    ///
    /// Its objects are loaded beside the change stream, so the other caches go on meanwhile. If the future is dropped,
    /// the resource is not added, and can be added again at once.
    pub async fn add(&self, resource: ResourceCacheConfig) -> Result<ResourceCache, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(ReflectorCommand::Add(resource, reply))?;
        let mut guard = CacheAdditionGuard {
            manager: self,
            answer,
            added: None,
        };
        let cache = (&mut guard.answer).await.map_err(|_| Error::Closed)??;
        guard.added = Some(cache.clone());
        // The cache was loaded at a revision that the change stream may not have reached yet. Wait for it: until
        // then the new cache is ahead of the others, and the applied revision does not hold for all.
        self.wait_until_applied(cache.snapshot().revision()).await?;
        guard.added = None;
        Ok(cache)
    }

    /// Removes the cache of a resource and ends its watches. Does nothing if the resource is not cached.
    ///
    /// The removal is queued when this returns: it precedes every later [`CacheManager::add`], and takes place even if
    /// the future is dropped. The future waits until the cache is removed.
    pub fn remove(
        &self,
        prefix: &StoragePrefix,
    ) -> impl Future<Output = Result<(), Error>> + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.send(ReflectorCommand::Remove(prefix.clone(), reply));
        async move {
            sent?;
            answer.await.map_err(|_| Error::Closed)
        }
    }

    /// The applied revision: all caches contain every change up to it, and it was dispatched to every watcher.
    pub fn applied_revision(&self) -> Revision {
        self.inner.shared.progress.applied()
    }

    /// Waits until all caches contain every change up to `revision`, so that a writer can read its own write.
    pub async fn wait_for_revision(
        &self,
        revision: Revision,
        deadline: Instant,
    ) -> Result<(), Error> {
        // The usual case: the embedded store answers a write after the caches have applied it.
        if self.applied_revision() >= revision {
            return Ok(());
        }
        match timeout_at(deadline, self.wait_until_applied(revision)).await {
            Ok(reached) => reached,
            Err(_) => Err(Error::RevisionTimeout {
                requested: revision,
                applied: self.applied_revision(),
            }),
        }
    }

    /// Waits until all caches contain everything that was written before this call, and returns that revision.
    /// A snapshot taken afterwards is a consistent read.
    pub async fn wait_until_consistent(&self, deadline: Instant) -> Result<Revision, Error> {
        let CacheManagerInner {
            revision_query,
            store,
            ..
        } = &*self.inner;
        let result = timeout_at(deadline, revision_query.revision(&**store)).await;
        let revision = result.map_err(|_| Error::StoreTimeout)??;
        self.wait_for_revision(revision, deadline).await?;
        Ok(revision)
    }

    pub fn health(&self) -> CacheHealth {
        self.inner.shared.health.borrow().clone()
    }

    /// Stops the store reflector and ends all watches; events that are already queued are still delivered.
    pub async fn close(&self) {
        let reader = self.inner.take_reader();
        if let Some(reader) = reader {
            reader.abort();
            // The result does not matter: the task was aborted or had ended.
            let _ = reader.await;
        }
        self.inner.shared.close();
    }

    async fn wait_until_applied(&self, revision: Revision) -> Result<(), Error> {
        let mut health = self.inner.shared.health.subscribe();
        tokio::select! {
            // An applied revision can be read also after the manager was closed.
            biased;
            () = self.inner.shared.progress.wait_for(revision) => Ok(()),
            _ = health.wait_for(|health| *health == CacheHealth::Closed) => Err(Error::Closed),
        }
    }

    fn send(&self, command: ReflectorCommand) -> Result<(), Error> {
        let sent = self.inner.commands.send(command);
        sent.map_err(|_| Error::Closed)
    }
}

/// An addition whose caller has not received the cache. If it is dropped before that, the cache is removed.
#[derive(Debug)]
struct CacheAdditionGuard<'a> {
    manager: &'a CacheManager,
    answer: oneshot::Receiver<Result<ResourceCache, Error>>,
    /// The cache that `answer` returned, until the caller receives it.
    added: Option<ResourceCache>,
}

impl Drop for CacheAdditionGuard<'_> {
    fn drop(&mut self) {
        // If the reflector sends the cache after this, the send fails, and the reflector removes it.
        self.answer.close();
        let sent = self.answer.try_recv().ok().and_then(Result::ok);
        if let Some(cache) = sent.or_else(|| self.added.take()) {
            // Fails only if the manager was closed.
            let _ = self.manager.send(ReflectorCommand::Discard(cache));
        }
    }
}

impl CacheManagerInner {
    fn take_reader(&self) -> Option<JoinHandle<()>> {
        let mut reader = self.reader.lock();
        reader.take()
    }
}

impl Drop for CacheManagerInner {
    fn drop(&mut self) {
        if let Some(reader) = self.take_reader() {
            reader.abort();
        }
        self.shared.close();
    }
}
