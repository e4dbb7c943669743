//! One reader of the store for all caches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rhumb_meta::{Revision, StoragePrefix};
use rhumb_store::Store;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::index::{Attribute, Budget};
use crate::inquiry::Inquiry;
use crate::progress::Progress;
use crate::reader::{Command, Reader};
use crate::watch::WatchEnd;
use crate::{Cache, Error, Options, Projector};

/// Requests to the reader that wait.
const COMMANDS_MAX: usize = 16;

/// What is cached: the objects below a prefix.
#[derive(Debug, Clone)]
pub struct Resource {
    pub prefix: StoragePrefix,
    pub projector: Arc<dyn Projector>,
    /// What lists find objects by without looking at all of them.
    pub indexes: Vec<Attribute>,
}

/// Whether the caches follow the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// They do.
    Following,
    /// The stream of changes broke; what is cached is served, and grows old, until the store is back.
    Recovering { reason: String },
    /// The hub was closed.
    Closed,
}

impl Health {
    pub fn is_ready(&self) -> bool {
        *self == Health::Following
    }
}

/// The caches of all resources, and the one number that says how far they are.
///
/// Cheap to clone; all clones are the same hub. It ends when it is closed, or the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Hub {
    handle: Arc<Handle>,
}

/// Ends the reader when the last hub goes.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    inquiry: Inquiry,
    commands: mpsc::Sender<Command>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

/// What the hub and its reader have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) root: String,
    pub(crate) options: Arc<Options>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) index_budget: Arc<Budget>,
    pub(crate) health: watch::Sender<Health>,
    /// By prefix. Changed by the reader only.
    caches: RwLock<HashMap<Box<str>, Cache>>,
}

impl Shared {
    pub(crate) fn cache(&self, prefix: &str) -> Option<Cache> {
        self.caches().get(prefix).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Cache> {
        self.caches().values().cloned().collect()
    }

    pub(crate) fn insert(&self, cache: Cache) {
        let mut caches = self.caches.write().unwrap_or_else(PoisonError::into_inner);
        caches.insert(cache.prefix().as_str().into(), cache);
    }

    pub(crate) fn remove(&self, prefix: &str) -> Option<Cache> {
        let mut caches = self.caches.write().unwrap_or_else(PoisonError::into_inner);
        caches.remove(prefix)
    }

    /// The cache a storage key belongs to: the one with the longest prefix.
    pub(crate) fn route(&self, key: &str) -> Option<Cache> {
        let caches = self.caches();
        let mut ends = key.rmatch_indices('/');
        ends.find_map(|(index, _)| caches.get(&key[..=index]).cloned())
    }

    fn caches(&self) -> std::sync::RwLockReadGuard<'_, HashMap<Box<str>, Cache>> {
        self.caches.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.health.send_replace(Health::Closed);
        for cache in self.all() {
            cache.inner().end(WatchEnd::Closing);
        }
    }
}

impl Hub {
    /// Reads everything below `root` (`/registry/`), and follows it from then on.
    ///
    /// The caches are complete when this returns. An error means that the store could not be read.
    pub async fn start(
        store: Arc<dyn Store>,
        root: &str,
        resources: Vec<Resource>,
        options: Options,
    ) -> Result<Hub, Error> {
        let root = format!("{}/", root.trim_end_matches('/'));
        let shared = Arc::new(Shared {
            root,
            options: Arc::new(options),
            progress: Arc::default(),
            index_budget: Arc::default(),
            health: watch::Sender::new(Health::Following),
            caches: RwLock::default(),
        });
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let mut reader = Reader::new(Arc::clone(&store), Arc::clone(&shared), received);
        let stream = reader.start(resources).await?;
        let reader = Mutex::new(Some(tokio::spawn(reader.run(stream))));
        let handle = Handle {
            shared,
            store,
            inquiry: Inquiry::default(),
            commands,
            reader,
        };
        Ok(Hub {
            handle: Arc::new(handle),
        })
    }

    /// The cache of a resource, if there is one.
    pub fn cache(&self, prefix: &StoragePrefix) -> Option<Cache> {
        self.handle.shared.cache(prefix.as_str())
    }

    /// Caches a further resource, such as a custom one. It is complete when this returns.
    ///
    /// The other caches stand still while its objects are read.
    pub async fn add(&self, resource: Resource) -> Result<Cache, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Add(resource, reply)).await?;
        let cache = answer.await.map_err(|_| Error::Closed)??;
        // It was read as of a revision that the stream may not have come to. Until it does, the cache is
        // newer than the others, and one revision would not hold for all.
        self.reach(cache.snapshot().revision()).await?;
        Ok(cache)
    }

    /// No longer caches a resource; its watchers end. Does nothing if there is none.
    pub async fn remove(&self, prefix: &StoragePrefix) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Remove(prefix.clone(), reply)).await?;
        answer.await.map_err(|_| Error::Closed)
    }

    /// The applied revision: all caches hold every change up to it, and every watcher was told of it.
    pub fn revision(&self) -> Revision {
        self.handle.shared.progress.applied()
    }

    /// Waits until all caches hold every change up to `revision`: what a writer does to read its own write.
    pub async fn wait_for(&self, revision: Revision, deadline: Instant) -> Result<(), Error> {
        // Mostly so: a store that can answers writers when the caches hold what they wrote.
        if self.revision() >= revision {
            return Ok(());
        }
        match timeout_at(deadline, self.reach(revision)).await {
            Ok(reached) => reached,
            Err(_) => Err(Error::Behind {
                requested: revision,
                applied: self.revision(),
            }),
        }
    }

    /// Waits until all caches hold everything that was written before this call, and tells how far that is.
    /// A snapshot taken afterwards is a consistent read.
    pub async fn current(&self, deadline: Instant) -> Result<Revision, Error> {
        let Handle { inquiry, store, .. } = &*self.handle;
        let asked = timeout_at(deadline, inquiry.revision(&**store)).await;
        let revision = asked.map_err(|_| Error::StoreSilent)??;
        self.wait_for(revision, deadline).await?;
        Ok(revision)
    }

    pub fn health(&self) -> Health {
        self.handle.shared.health.borrow().clone()
    }

    /// Waits until the health is another than the one given.
    pub async fn health_changed(&self, from: &Health) -> Health {
        let mut health = self.handle.shared.health.subscribe();
        match health.wait_for(|health| health != from).await {
            Ok(health) => health.clone(),
            Err(_) => Health::Closed,
        }
    }

    /// Ends the reader and all watchers, which first tell what waits for them.
    pub async fn close(&self) {
        let reader = self.handle.take_reader();
        if let Some(reader) = reader {
            reader.abort();
            // It was aborted, or had ended: either way it is over.
            let _ = reader.await;
        }
        self.handle.shared.end();
    }

    async fn reach(&self, revision: Revision) -> Result<(), Error> {
        let mut health = self.handle.shared.health.subscribe();
        tokio::select! {
            // What is there can be read also when nothing more comes.
            biased;
            () = self.handle.shared.progress.reach(revision) => Ok(()),
            _ = health.wait_for(|health| *health == Health::Closed) => Err(Error::Closed),
        }
    }

    async fn send(&self, command: Command) -> Result<(), Error> {
        let sent = self.handle.commands.send(command).await;
        sent.map_err(|_| Error::Closed)
    }
}

impl Handle {
    fn take_reader(&self) -> Option<JoinHandle<()>> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.take()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(reader) = self.take_reader() {
            reader.abort();
        }
        self.shared.end();
    }
}
