//! Holds the open database, and opens it anew where that is what recovers it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use redb::{Database, DatabaseError};

use super::fault::{from_redb, guarded, short};
use crate::{Error, Result};

/// What the database lies on: a file, or a simulated disk in tests.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens what is there; called again after a full disk.
    fn open(&self, builder: &mut redb::Builder) -> Result<Database, DatabaseError>;

    /// How many bytes it takes, for people and metrics.
    fn bytes(&self) -> u64;
}

/// How often a read is tried on a disk that fails.
const READ_ATTEMPTS: usize = 3;

#[derive(Debug)]
pub(super) struct Engine {
    disk: Box<dyn Disk>,
    cache_bytes: usize,
    /// Or why it is not open: the disk is too full or fails, or the store is closed.
    database: RwLock<Result<Database>>,
    /// How often it has been opened again.
    generation: AtomicU64,
    /// Why nothing is written any more.
    halted: OnceLock<Error>,
    closed: AtomicBool,
}

impl Engine {
    pub(super) fn open(disk: Box<dyn Disk>, cache_bytes: usize) -> Result<Self, DatabaseError> {
        let database = open_database(disk.as_ref(), cache_bytes)?;
        Ok(Engine {
            disk,
            cache_bytes,
            database: RwLock::new(Ok(database)),
            generation: AtomicU64::new(0),
            halted: OnceLock::new(),
            closed: AtomicBool::new(false),
        })
    }

    /// Runs a read on a thread where it may block.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl Fn(&Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let engine = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || engine.read_blocking(&read));
        task.await.unwrap_or(Err(Error::Closed))
    }

    /// Runs a read. redb refuses everything once any read or write has failed, so the database is then
    /// opened again, unless that is forbidden because the disk failed to keep a write.
    pub(super) fn read_blocking<T>(&self, read: impl Fn(&Database) -> Result<T>) -> Result<T> {
        for _ in 1..READ_ATTEMPTS {
            let generation = self.generation.load(Ordering::Acquire);
            match guarded(|| self.with_database(&read)) {
                Err(error @ (Error::Failed { .. } | Error::Unavailable { .. }))
                    if self.halted.get().is_none() =>
                {
                    tracing::warn!("a read failed: {error}");
                    // If it cannot be opened, the next attempt says why.
                    let _ = self.reopen_unless_newer(generation);
                }
                result => return result,
            }
        }
        guarded(|| self.with_database(&read))
    }

    pub(super) fn with_database<T>(&self, run: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        let guard = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match guard.as_ref() {
            Ok(database) => run(database),
            Err(error @ (Error::Closed | Error::StorageFull { .. })) => Err(error.clone()),
            Err(error) => Err(Error::Unavailable {
                reason: format!("the database could not be opened again: {}", short(error)),
            }),
        }
    }

    /// Opens the database if it is not open: the disk may work or have room by now.
    pub(super) fn ensure_open(&self) -> Result<()> {
        let open = self
            .database
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_ok();
        if open { Ok(()) } else { self.reopen() }
    }

    /// Drops the database and opens it as the disk has it.
    pub(super) fn reopen(&self) -> Result<()> {
        self.reopen_unless_newer(u64::MAX)
    }

    /// Does nothing if it has been opened again since `generation`, by another who met the same failure.
    fn reopen_unless_newer(&self, generation: u64) -> Result<()> {
        let mut database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_closed() {
            return Err(Error::Closed);
        }
        if self.generation.load(Ordering::Acquire) > generation {
            return Ok(());
        }
        // Closed before it is opened again, or the file would be locked.
        *database = Err(Error::Closed);
        *database =
            guarded(|| open_database(self.disk.as_ref(), self.cache_bytes).map_err(from_redb));
        self.generation.fetch_add(1, Ordering::AcqRel);
        database.as_ref().map(|_| ()).map_err(Error::clone)
    }

    /// From now on nothing is written, for this reason.
    pub(super) fn halt(&self, reason: Error) -> Error {
        self.halted.get_or_init(|| reason).clone()
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        match self.halted.get() {
            Some(reason) => Err(reason.clone()),
            None => Ok(()),
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *database = Err(Error::Closed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        self.disk.bytes()
    }
}

fn open_database(disk: &dyn Disk, cache_bytes: usize) -> Result<Database, DatabaseError> {
    let mut builder = Database::builder();
    builder.set_cache_size(cache_bytes);
    builder.set_repair_callback(|session| {
        let percent = session.progress() * 100.0;
        tracing::info!("checking the database after an unclean end: {percent:.0} %");
    });
    disk.open(&mut builder)
}
