//! Holds the open database, and opens it anew where that is what recovers it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redb::{Database, DatabaseError};

use super::fault::{PAGES_DO_NOT_FIT, damaged, from_redb, is_echo};
use crate::{Error, Result};

/// What the database lies on: a file, or a simulated disk in tests.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens what is there; called again after a full disk.
    fn open(&self, builder: &mut redb::Builder) -> Result<Database, DatabaseError>;

    /// How many bytes it takes, for people and metrics.
    fn bytes(&self) -> u64;
}

/// How long a read waits for the database to be opened again before it gives up.
const REOPEN_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Engine {
    disk: Box<dyn Disk>,
    cache_bytes: usize,
    /// `None` while the disk is too full to open it, and once the store is closed.
    database: RwLock<Option<Database>>,
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
            database: RwLock::new(Some(database)),
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
        match task.await {
            Ok(result) => result,
            Err(error) if error.is_panic() => Err(damaged("the database file", PAGES_DO_NOT_FIT)),
            Err(_) => Err(Error::Closed),
        }
    }

    /// Runs a read. One that meets the echo of a full disk waits until the database is open again.
    pub(super) fn read_blocking<T>(&self, read: impl Fn(&Database) -> Result<T>) -> Result<T> {
        let deadline = Instant::now() + REOPEN_PATIENCE;
        loop {
            match self.with_database(&read) {
                Err(error) if is_echo(&error) && self.halted.get().is_none() => {
                    if Instant::now() > deadline {
                        return Err(error);
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                result => return result,
            }
        }
    }

    pub(super) fn with_database<T>(&self, run: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        let guard = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match guard.as_ref() {
            Some(database) => run(database),
            None if self.is_closed() => Err(Error::Closed),
            None => Err(Error::StorageFull {
                reason: "there is no room to open the database".to_owned(),
            }),
        }
    }

    /// Opens the database if it is not open: the disk may have room by now. Tells whether it did.
    pub(super) fn ensure_open(&self) -> Result<bool> {
        let is_open = |database: &Option<Database>| database.is_some() || self.is_closed();
        if is_open(&self.database.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(false);
        }
        self.reopen().map(|()| true)
    }

    /// Drops the database and opens it as the disk has it. redb refuses all work after a failed write,
    /// and only this brings it back.
    pub(super) fn reopen(&self) -> Result<()> {
        let mut database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *database = None;
        let opened = open_database(self.disk.as_ref(), self.cache_bytes).map_err(from_redb)?;
        *database = Some(opened);
        Ok(())
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
        *database = None;
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
