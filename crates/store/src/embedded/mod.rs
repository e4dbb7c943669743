//! The default backend: a segmented append-only log in a local directory, with an in-memory key index.
//!
//! [`EmbeddedStore`] is the entry point. One thread does all writing ([`committer`]) and shares each fsync among all
//! waiting transactions (group commit). A second thread rewrites segments to reclaim disk space
//! ([`segment_cleaner`]). Reads run concurrently and wait only while the index is updated. Change streams read recent
//! changes from memory, older ones from the log.

mod apply;
mod backup;
mod change_feed;
mod commit_ack;
mod committer;
mod directory;
mod disk;
mod disk_error;
mod file;
mod group_commit;
mod index;
mod log;
mod read;
mod retention;
mod segment_cleaner;

use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use async_trait::async_trait;
use rhumb_meta::Revision;
use tokio::sync::{Semaphore, oneshot};

pub use backup::{
    RESTORE_REVISION_GAP, StoreContentsReport, backup_offline, check_store, delete_damaged_entry,
    restore,
};
pub use disk::{Disk, DiskFile};
pub use file::DataDirectoryError;
pub use retention::RetentionPolicy;

use crate::entries::{check_key, check_prefix};
use crate::{ChangeStream, Error, RangePage, RangeRequest, Result, Store, StoreEntry, Transaction};
use change_feed::{ChangeFeed, EmbeddedChangeStream};
use commit_ack::CommitResponder;
use committer::{Committer, CommitterRequest};
use directory::DataDirectory;
use disk::DiskDirectory;
use group_commit::GroupCommitDelay;
use index::SharedKeyIndex;
use log::{LoadedLog, LogLoadError, LogLoadErrorKind};
use read::EmbeddedReader;
use retention::CompactionSchedule;
use segment_cleaner::SegmentCleanerHandle;

/// The commit queue is limited in units of this size; a transaction takes at least one.
const QUEUE_UNIT_BYTES: usize = 1024;

/// The maximum size of a log segment, unless a single write is larger.
const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Limits of an embedded store: history, segment size, memory.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    pub retention: RetentionPolicy,
    /// The size at which a new log segment is started.
    pub segment_bytes: u64,
    /// How many bytes of recent changes are kept in memory for change streams.
    pub recent_changes_bytes: usize,
    /// The maximum size of transactions queued for the committer. Callers wait while the queue is full.
    pub queue_bytes: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        EmbeddedOptions {
            retention: RetentionPolicy::default(),
            segment_bytes: SEGMENT_BYTES,
            recent_changes_bytes: 8 * 1024 * 1024,
            queue_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Resource usage of an embedded store, for metrics.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedStats {
    pub revision: Revision,
    pub file_bytes: u64,
    pub recent_changes_bytes: usize,
    pub queue_bytes: usize,
}

/// A store in a local directory.
///
/// Dropping it commits the queued transactions and closes the log, and blocks the thread meanwhile;
/// [`EmbeddedStore::close`] does the same without blocking.
#[derive(Debug)]
pub struct EmbeddedStore {
    reader: EmbeddedReader,
    feed: Arc<ChangeFeed>,
    requests: Option<mpsc::Sender<CommitterRequest>>,
    group_commit: Arc<GroupCommitDelay>,
    queue_permits: Arc<Semaphore>,
    queue_units: usize,
    committer: Option<JoinHandle<()>>,
}

/// Waits for the committer: a process that exits before the log is closed leaves a log that does not record where it
/// ends, so the next start could not detect missing data.
impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.committer.take() {
            let _ = thread.join();
        }
    }
}

impl EmbeddedStore {
    /// Opens the store in `directory`, creating it if needed.
    pub async fn open(
        directory: &Path,
        options: EmbeddedOptions,
    ) -> Result<Self, DataDirectoryError> {
        let directory = directory.to_owned();
        let opening =
            tokio::task::spawn_blocking(move || Self::open_blocking(&directory, &options));
        opening
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn open_blocking(path: &Path, options: &EmbeddedOptions) -> Result<Self, DataDirectoryError> {
        let directory = DataDirectory::lock(path)?;
        let log = directory.log_path();
        if !log.exists() {
            directory.create_empty_log()?;
        }
        let log_directory = DiskDirectory::open(&log).map_err(DataDirectoryError::io(&log))?;
        let loaded = log::load(Box::new(log_directory))
            .map_err(DataDirectoryError::from_load_error(&log))?;
        Self::start(loaded, options, Some(directory)).map_err(DataDirectoryError::io(&log))
    }

    /// Opens the store on another [`Disk`] implementation, such as a simulated one, creating it if needed.
    pub async fn open_on(disk: impl Disk, options: EmbeddedOptions) -> Result<Self> {
        let opening = tokio::task::spawn_blocking(move || {
            let failed = |error| disk_error::from_io(&error);
            directory::initialise_if_new(&disk).map_err(failed)?;
            let loaded = log::load(Box::new(disk)).map_err(load_error)?;
            Self::start(loaded, &options, None).map_err(failed)
        });
        opening
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn start(
        loaded: LoadedLog,
        options: &EmbeddedOptions,
        directory: Option<DataDirectory>,
    ) -> io::Result<Self> {
        let (log, index, tail) = loaded.into_writable(options.segment_bytes)?;
        let feed = Arc::new(ChangeFeed::new(
            index.revision(),
            options.recent_changes_bytes,
        ));
        let index = SharedKeyIndex::new(index);
        let cleaning =
            SegmentCleanerHandle::start(Arc::clone(&log), index.clone(), options.segment_bytes)?;
        let (requests, receiver) = mpsc::channel();
        let group_commit = Arc::<GroupCommitDelay>::default();
        let committer = Committer::new(
            (Arc::clone(&log), tail),
            index.clone(),
            Arc::clone(&feed),
            (receiver, Arc::clone(&group_commit)),
            CompactionSchedule::new(options.retention),
            cleaning,
        );
        let run = move || {
            committer.run();
            drop(directory);
        };
        let thread = std::thread::Builder::new().name("committer".to_owned());
        let queue_units = options.queue_bytes / QUEUE_UNIT_BYTES;
        Ok(EmbeddedStore {
            reader: EmbeddedReader::new(log, index),
            feed,
            requests: Some(requests),
            group_commit,
            queue_permits: Arc::new(Semaphore::new(queue_units)),
            queue_units,
            committer: Some(thread.spawn(run)?),
        })
    }

    /// Commits the queued transactions, closes the log and releases the directory lock.
    pub async fn close(mut self) {
        self.requests = None;
        if let Some(thread) = self.committer.take() {
            // The thread returns nothing, and a panic in it was already reported to writers.
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
    }

    pub fn stats(&self) -> EmbeddedStats {
        let free = self.queue_permits.available_permits();
        EmbeddedStats {
            revision: self.feed.revision(),
            file_bytes: self.reader.disk_bytes(),
            recent_changes_bytes: self.feed.ring_bytes(),
            queue_bytes: self.queue_units.saturating_sub(free) * QUEUE_UNIT_BYTES,
        }
    }

    fn stream(&self, prefix: &str, after: Revision) -> Result<EmbeddedChangeStream> {
        check_prefix(prefix)?;
        let oldest = self.reader.compacted();
        if after < oldest {
            return Err(Error::Compacted {
                requested: after,
                oldest,
            });
        }
        let (reader, feed) = (self.reader.clone(), Arc::clone(&self.feed));
        Ok(EmbeddedChangeStream::new(reader, feed, prefix, after))
    }

    fn send(&self, request: CommitterRequest) -> Result<()> {
        let requests = self.requests.as_ref().ok_or(Error::Closed)?;
        requests.send(request).map_err(|_| Error::Closed)
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, key: &str) -> Result<Option<StoreEntry>> {
        check_key(key)?;
        let key = key.to_owned();
        self.reader.run(move |reader| reader.entry(&key)).await
    }

    async fn range(&self, range: RangeRequest<'_>) -> Result<RangePage> {
        check_prefix(range.prefix)?;
        let (prefix, after) = (range.prefix.to_owned(), range.after.map(str::to_owned));
        let (limit, at) = (range.limit, range.at);
        let read = move |reader: &EmbeddedReader| {
            let range = RangeRequest {
                prefix: &prefix,
                after: after.as_deref(),
                limit,
                at,
            };
            reader.range_snapshot(&range)?.read_page()
        };
        self.reader.run(read).await
    }

    /// A queued transaction is committed even if the caller drops the future.
    async fn commit(&self, transaction: Transaction) -> Result<Revision> {
        transaction.validate()?;
        let units = 1 + transaction.size() / QUEUE_UNIT_BYTES;
        // A transaction larger than the whole queue waits until the queue is empty.
        let units = units.min(self.queue_units) as u32;
        let permit = Arc::clone(&self.queue_permits)
            .acquire_many_owned(units)
            .await
            .map_err(|_| Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let writer = CommitResponder {
            reply,
            queue_permit: permit,
        };
        self.send(CommitterRequest::Commit {
            transaction,
            waiter: writer,
        })?;
        self.group_commit.transaction_queued();
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn changes(&self, prefix: &str, after: Revision) -> Result<Box<dyn ChangeStream>> {
        Ok(Box::new(self.stream(prefix, after)?))
    }

    async fn changes_gating_commits(
        &self,
        prefix: &str,
        after: Revision,
    ) -> Result<Box<dyn ChangeStream>> {
        Ok(Box::new(self.stream(prefix, after)?.with_ack_gating()))
    }

    async fn revision(&self) -> Result<Revision> {
        Ok(self.feed.revision())
    }

    async fn check_writable(&self) -> Result<()> {
        if self.committer.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(Error::Closed);
        }
        self.reader.check_writable()
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.send(CommitterRequest::Compact { revision, reply })?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

fn load_error(LogLoadError { file, kind: why }: LogLoadError) -> Error {
    let reason = match why {
        LogLoadErrorKind::Io(error) => return disk_error::from_io(&error),
        LogLoadErrorKind::NotALog => {
            "the file does not start with the magic bytes of a rhumb log".to_owned()
        }
        LogLoadErrorKind::UnsupportedFormat(format) => format!("unsupported log format {format}"),
        LogLoadErrorKind::Damaged(reason) => reason,
    };
    disk_error::damaged(&file, &reason)
}
