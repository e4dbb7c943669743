//! The default backend: a log in a directory, no other process.
//!
//! One thread owns all writing ([`committer`]) and shares each sync among all who wait. Another one gives the room
//! of what is no longer needed back ([`cleaner`]). Reads run beside them, and wait only for the moments in which the
//! index is changed. Streams read from memory, or from the log when they lag.

mod apply;
mod backup;
mod cleaner;
mod committer;
mod directory;
mod disk;
mod fault;
mod feed;
mod file;
mod gathering;
mod index;
mod leader;
mod log;
mod read;
mod retention;

use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use async_trait::async_trait;
use rhumb_meta::Revision;
use tokio::sync::{Semaphore, oneshot};

pub use backup::{RESTORE_REVISION_GAP, Report, backup_file, check, drop_damaged, restore};
pub use disk::{Disk, DiskFile};
pub use file::FileError;
pub use retention::Retention;

use crate::types::{check_key, check_prefix};
use crate::{ChangeStream, Entry, Error, Page, Range, Result, Store, Transaction};
use cleaner::Cleaning;
use committer::{Committer, Request};
use directory::Directory;
use disk::Folder;
use feed::{Feed, Stream};
use gathering::Gathering;
use index::SharedIndex;
use leader::Writer;
use log::{Loaded, Unreadable, Why};
use read::Reader;
use retention::Ages;

/// The queue is measured in units of this size, at least one a transaction.
const QUEUE_UNIT_BYTES: usize = 1024;

/// How large a segment of the log gets, unless a single write is larger.
const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// How much of everything the store may use.
#[derive(Debug, Clone)]
pub struct Options {
    pub retention: Retention,
    /// How large a file of the log gets before another one is begun.
    pub segment_bytes: u64,
    /// Recent changes kept in memory for streams.
    pub recent_changes_bytes: usize,
    /// Transactions that wait for the committer. Callers wait when it is full.
    pub queue_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            retention: Retention::default(),
            segment_bytes: SEGMENT_BYTES,
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
/// Dropping it carries out the transactions that wait and closes the log, and takes as long as that takes;
/// [`Embedded::close`] does the same without holding the thread.
#[derive(Debug)]
pub struct Embedded {
    reader: Reader,
    feed: Arc<Feed>,
    requests: Option<mpsc::Sender<Request>>,
    gathering: Arc<Gathering>,
    queue: Arc<Semaphore>,
    queue_units: usize,
    committer: Option<JoinHandle<()>>,
}

/// A process that ends must not be quicker than the log is closed, or the next start could not tell whether
/// something is missing at its end.
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
        let log = directory.log();
        if !log.exists() {
            directory.create_empty_log()?;
        }
        let folder = Folder::open(&log).map_err(FileError::io(&log))?;
        let loaded = log::load(Box::new(folder)).map_err(FileError::unreadable(&log))?;
        Self::start(loaded, options, Some(directory)).map_err(FileError::io(&log))
    }

    /// Opens the store on a disk of the caller's own, such as a simulated one, or creates it there.
    pub async fn open_on(disk: impl Disk, options: Options) -> Result<Self> {
        let opening = tokio::task::spawn_blocking(move || {
            let failed = |error| fault::from_io(&error);
            directory::initialise_if_new(&disk).map_err(failed)?;
            let loaded = log::load(Box::new(disk)).map_err(as_error)?;
            Self::start(loaded, &options, None).map_err(failed)
        });
        opening
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn start(loaded: Loaded, options: &Options, directory: Option<Directory>) -> io::Result<Self> {
        let (log, index, tail) = loaded.writable(options.segment_bytes)?;
        let feed = Arc::new(Feed::new(index.revision(), options.recent_changes_bytes));
        let index = SharedIndex::new(index);
        let cleaning = Cleaning::start(Arc::clone(&log), index.clone(), options.segment_bytes)?;
        let (requests, receiver) = mpsc::channel();
        let gathering = Arc::<Gathering>::default();
        let committer = Committer::new(
            (Arc::clone(&log), tail),
            index.clone(),
            Arc::clone(&feed),
            (receiver, Arc::clone(&gathering)),
            Ages::new(options.retention),
            cleaning,
        );
        let run = move || {
            committer.run();
            drop(directory);
        };
        let thread = std::thread::Builder::new().name("committer".to_owned());
        let queue_units = options.queue_bytes / QUEUE_UNIT_BYTES;
        Ok(Embedded {
            reader: Reader::new(log, index),
            feed,
            requests: Some(requests),
            gathering,
            queue: Arc::new(Semaphore::new(queue_units)),
            queue_units,
            committer: Some(thread.spawn(run)?),
        })
    }

    /// Carries out what waits, closes the log and lets go of the directory.
    pub async fn close(mut self) {
        self.requests = None;
        if let Some(thread) = self.committer.take() {
            // There is nothing left to report at the end.
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
    }

    pub fn stats(&self) -> Stats {
        let free = self.queue.available_permits();
        Stats {
            revision: self.feed.revision(),
            file_bytes: self.reader.disk_bytes(),
            recent_changes_bytes: self.feed.ring_bytes(),
            queue_bytes: self.queue_units.saturating_sub(free) * QUEUE_UNIT_BYTES,
        }
    }

    fn stream(&self, prefix: &str, after: Revision) -> Result<Stream> {
        check_prefix(prefix)?;
        let oldest = self.reader.compacted();
        if after < oldest {
            return Err(Error::Compacted {
                requested: after,
                oldest,
            });
        }
        let (reader, feed) = (self.reader.clone(), Arc::clone(&self.feed));
        Ok(Stream::new(reader, feed, prefix, after))
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
        let key = key.to_owned();
        self.reader.run(move |reader| reader.entry(&key)).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Page> {
        check_prefix(range.prefix)?;
        let (prefix, after) = (range.prefix.to_owned(), range.after.map(str::to_owned));
        let (limit, at) = (range.limit, range.at);
        let read = move |reader: &Reader| {
            let range = Range {
                prefix: &prefix,
                after: after.as_deref(),
                limit,
                at,
            };
            reader.contents(&range)?.page()
        };
        self.reader.run(read).await
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
        let writer = Writer { reply, permit };
        self.send(Request::Commit {
            transaction,
            writer,
        })?;
        self.gathering.arrived();
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        Ok(Box::new(self.stream(prefix, after)?))
    }

    async fn lead(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        Ok(Box::new(self.stream(prefix, after)?.leading()))
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

fn as_error(Unreadable { file, why }: Unreadable) -> Error {
    let reason = match why {
        Why::Io(error) => return fault::from_io(&error),
        Why::Foreign => "it does not begin like a log".to_owned(),
        Why::OtherFormat(format) => format!("it has format {format}"),
        Why::Damaged(reason) => reason,
    };
    fault::damaged(&file, &reason)
}
