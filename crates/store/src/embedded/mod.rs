//! The default backend: one file in a directory, no other process.
//!
//! One thread owns all writing ([`committer`]) and shares each sync among all who wait. Reads run on
//! snapshots beside it and never wait for it. Streams read from memory, or from the file when they lag.
//!
//! Nothing outside this folder knows of redb, but for [`Disk`], by which tests bring a disk of their own.

mod apply;
mod backup;
mod committer;
mod contents;
mod directory;
mod engine;
mod fault;
mod feed;
mod file;
mod index;
mod layout;
mod read;
mod retention;

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::thread::JoinHandle;

use async_trait::async_trait;
use rhumb_meta::Revision;
use tokio::sync::{Semaphore, oneshot};

pub use backup::{RESTORE_REVISION_GAP, Report, backup_file, check, drop_damaged, restore};
pub use engine::Disk;
pub use file::FileError;
pub use retention::Retention;

use crate::types::{check_key, check_prefix};
use crate::{ChangeStream, Entry, Error, Page, Range, Result, Store, Transaction};
use committer::{Committer, Request, SharedIndex};
use contents::Contents;
use directory::Directory;
use engine::Engine;
use feed::{Feed, Stream};
use read::Snapshot;
use retention::Ages;

/// The queue is measured in units of this size, at least one a transaction.
const QUEUE_UNIT_BYTES: usize = 1024;

/// How much of everything the store may use.
#[derive(Debug, Clone)]
pub struct Options {
    pub retention: Retention,
    /// Pages of the file that are kept in memory. Reads of objects come from the cache above the store,
    /// so this need not hold them all.
    pub page_cache_bytes: usize,
    /// Recent changes kept in memory for streams.
    pub recent_changes_bytes: usize,
    /// Transactions that wait for the committer. Callers wait when it is full.
    pub queue_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            retention: Retention::default(),
            page_cache_bytes: 64 * 1024 * 1024,
            recent_changes_bytes: 8 * 1024 * 1024,
            queue_bytes: 64 * 1024 * 1024,
        }
    }
}

/// How near the store is to its limits.
#[derive(Debug, Clone, Copy)]
pub struct Stats {
    pub revision: Revision,
    pub file_bytes: u64,
    pub recent_changes_bytes: usize,
    pub queue_bytes: usize,
}

/// A store in a directory of this machine.
///
/// Dropping it carries out the transactions that wait and closes the file, and takes as long as that takes;
/// [`Embedded::close`] does the same without holding the thread.
#[derive(Debug)]
pub struct Embedded {
    engine: Arc<Engine>,
    index: SharedIndex,
    feed: Arc<Feed>,
    requests: Option<mpsc::Sender<Request>>,
    queue: Arc<Semaphore>,
    queue_units: usize,
    committer: Option<JoinHandle<()>>,
}

/// A process that ends must not be quicker than the file is closed: the next start would have to check all of it.
impl Drop for Embedded {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.committer.take() {
            let _ = thread.join();
        }
    }
}

impl Embedded {
    /// Opens the store in `directory`, or creates it there.
    pub async fn open(directory: &Path, options: Options) -> Result<Self, FileError> {
        let directory = directory.to_owned();
        let opening =
            tokio::task::spawn_blocking(move || Self::open_blocking(&directory, &options));
        opening
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn open_blocking(path: &Path, options: &Options) -> Result<Self, FileError> {
        let directory = Directory::hold(path)?;
        let database = directory.database();
        if !database.exists() {
            directory.create_database(directory::initialise)?;
        }
        let engine = file::open_engine(&database, options.page_cache_bytes)?;
        Self::start(engine, options, Some(directory))
            .map_err(|error| FileError::damaged(&database, fault::short(&error)))
    }

    /// Opens the store on a disk of the caller's own, such as a simulated one, or creates it there.
    pub async fn open_on(disk: impl Disk, options: Options) -> Result<Self> {
        let opening = tokio::task::spawn_blocking(move || {
            let engine =
                Engine::open(Box::new(disk), options.page_cache_bytes).map_err(fault::from_redb)?;
            directory::initialise_if_new(&engine)?;
            Self::start(engine, &options, None)
        });
        opening
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn start(engine: Engine, options: &Options, directory: Option<Directory>) -> Result<Self> {
        let index = engine.read_blocking(|database| Snapshot::open(database)?.index())?;
        let feed = Arc::new(Feed::new(index.revision(), options.recent_changes_bytes));
        let (engine, index) = (Arc::new(engine), Arc::new(RwLock::new(index)));
        let (requests, receiver) = mpsc::channel();
        let committer = Committer::new(
            Arc::clone(&engine),
            Arc::clone(&index),
            Arc::clone(&feed),
            receiver,
            Ages::new(options.retention),
        );
        let run = move || {
            committer.run();
            drop(directory);
        };
        let thread = std::thread::Builder::new().name("committer".to_owned());
        let committer = thread.spawn(run).map_err(|error| fault::from_io(&error))?;
        let queue_units = options.queue_bytes / QUEUE_UNIT_BYTES;
        Ok(Embedded {
            engine,
            index,
            feed,
            requests: Some(requests),
            queue: Arc::new(Semaphore::new(queue_units)),
            queue_units,
            committer: Some(committer),
        })
    }

    /// Carries out what waits, closes the file and lets go of the directory.
    pub async fn close(mut self) {
        self.requests = None;
        if let Some(thread) = self.committer.take() {
            // The committer catches panics of its own; there is nothing left to report at the end.
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
    }

    pub fn stats(&self) -> Stats {
        let free = self.queue.available_permits();
        Stats {
            revision: self.feed.revision(),
            file_bytes: self.engine.disk_bytes(),
            recent_changes_bytes: self.feed.ring_bytes(),
            queue_bytes: self.queue_units.saturating_sub(free) * QUEUE_UNIT_BYTES,
        }
    }

    fn send(&self, request: Request) -> Result<()> {
        let requests = self.requests.as_ref().ok_or(Error::Closed)?;
        requests.send(request).map_err(|_| Error::Closed)
    }
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        check_key(key)?;
        let (key, index) = (key.to_owned(), Arc::clone(&self.index));
        self.engine
            .read(move |database| contents::entry(&key, &index, database))
            .await
    }

    async fn range(&self, range: Range<'_>) -> Result<Page> {
        check_prefix(range.prefix)?;
        let (prefix, after) = (range.prefix.to_owned(), range.after.map(str::to_owned));
        let (limit, at) = (range.limit, range.at);
        let index = Arc::clone(&self.index);
        let read = move |database: &redb::Database| {
            let range = Range {
                prefix: &prefix,
                after: after.as_deref(),
                limit,
                at,
            };
            Contents::of(&range, &index, database)?.page()
        };
        self.engine.read(read).await
    }

    /// Once the transaction waits in the queue it is carried out, also if the caller stops waiting.
    async fn commit(&self, transaction: Transaction) -> Result<Revision> {
        transaction.check_form()?;
        let units = 1 + transaction.size() / QUEUE_UNIT_BYTES;
        // A transaction larger than the whole queue waits until it has the queue to itself.
        let units = units.min(self.queue_units) as u32;
        let permit = Arc::clone(&self.queue)
            .acquire_many_owned(units)
            .await
            .map_err(|_| Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        self.send(Request::Commit {
            transaction,
            reply,
            permit,
        })?;
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        check_prefix(prefix)?;
        let oldest = self
            .index
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .compacted();
        if after < oldest {
            return Err(Error::Compacted {
                requested: after,
                oldest,
            });
        }
        let (engine, feed) = (Arc::clone(&self.engine), Arc::clone(&self.feed));
        Ok(Box::new(Stream::new(engine, feed, prefix, after)))
    }

    async fn revision(&self) -> Result<Revision> {
        Ok(self.feed.revision())
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Compact { revision, reply })?;
        answer.await.map_err(|_| Error::Closed)?
    }
}
