//! The data directory: who may use it, and what lies in it.
//!
//! ```text
//! DIR/LOCK             held by the process that uses the directory; its id is inside
//! DIR/store.redb       the database
//! DIR/store.redb.new   a database in the making, renamed when it is whole
//! ```

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase};

use super::apply::Tables;
use super::committer::begin;
use super::engine::{Disk, Engine};
use super::fault::{PAGES_DO_NOT_FIT, from_redb};
use super::layout::{FIRST_REVISION, FORMAT, META, META_COMPACTED, META_FORMAT, META_REVISION};
use super::read::Snapshot;
use crate::Error;

const LOCK: &str = "LOCK";
const DATABASE: &str = "store.redb";
const UNFINISHED: &str = "store.redb.new";

/// What every database file begins with.
const MAGIC: &[u8] = b"redb";

/// Why a data directory or a backup cannot be used. What was there has not been changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    #[error("{path} is in use by process {process}: stop it, or choose another data directory")]
    InUse { path: PathBuf, process: String },

    #[error(
        "{path} is not a rhumb store: {found}; choose another path, or move what is there away"
    )]
    Foreign { path: PathBuf, found: String },

    #[error(
        "{path} is damaged: {reason}; move it away and restore a backup with `rhumb store restore`, or start empty"
    )]
    Damaged { path: PathBuf, reason: String },

    #[error(
        "{path} has format {found}, this rhumb reads format {FORMAT}: use the rhumb that wrote it"
    )]
    OtherFormat { path: PathBuf, found: u64 },

    #[error("there is no store in {path}: name the data directory of a rhumb server")]
    Missing { path: PathBuf },

    #[error("{path} holds a store already: restore into an empty directory")]
    Occupied { path: PathBuf },

    #[error("{path} exists already: choose another name, a backup overwrites nothing")]
    Exists { path: PathBuf },

    #[error("{path} could not be written: {reason}")]
    NotWritten { path: PathBuf, reason: String },

    #[error("cannot use {path}: {error}")]
    Io { path: PathBuf, error: io::Error },
}

impl FileError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> FileError {
        let path = path.to_owned();
        |error| FileError::Io { path, error }
    }

    pub(super) fn not_written(path: &Path, reason: impl ToString) -> FileError {
        FileError::NotWritten {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    pub(super) fn damaged(path: &Path, reason: impl ToString) -> FileError {
        FileError::Damaged {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// A data directory that this process holds. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Takes hold of the directory, and creates it if need be. What is foreign is left untouched.
    pub(super) fn hold(path: &Path) -> Result<Self, FileError> {
        create_private(path).map_err(FileError::io(path))?;
        refuse_foreign(path)?;
        let lock = lock(&path.join(LOCK))?;
        Ok(Directory {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Takes hold of a directory that holds a store.
    pub(super) fn hold_existing(path: &Path) -> Result<Self, FileError> {
        if !path.join(DATABASE).exists() {
            return Err(FileError::Missing {
                path: path.to_owned(),
            });
        }
        Self::hold(path)
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Makes a new database with `fill`, and puts it in place only when it is whole and on disk.
    pub(super) fn create_database(
        &self,
        fill: impl FnOnce(&Database) -> crate::Result<()>,
    ) -> Result<(), FileError> {
        let unfinished = self.path.join(UNFINISHED);
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FileError::io(&unfinished)(error));
            }
            _ => {}
        }
        write_database(&unfinished, fill)?;
        publish(&unfinished, &self.database())
    }
}

/// Writes a database file that did not exist, and closes it.
pub(super) fn write_database(
    path: &Path,
    fill: impl FnOnce(&Database) -> crate::Result<()>,
) -> Result<(), FileError> {
    let storage = |error: Error| FileError::not_written(path, error);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(FileError::io(path))?;
    let database = Database::builder()
        .create_file(file)
        .map_err(|error| storage(from_redb(error)))?;
    fill(&database).map_err(storage)
}

/// Moves a finished file into place, so that it is there as a whole or not at all.
pub(super) fn publish(unfinished: &Path, place: &Path) -> Result<(), FileError> {
    let publish = || {
        File::open(unfinished)?.sync_all()?;
        fs::rename(unfinished, place)?;
        match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
            _ => File::open(".")?.sync_all(),
        }
    };
    publish().map_err(FileError::io(place))
}

/// The tables and numbers of a store that nobody has written to.
pub(super) fn initialise(database: &Database) -> crate::Result<()> {
    let write = begin(database)?;
    {
        let mut tables = Tables::open(&write)?;
        tables.set(META_FORMAT, FORMAT)?;
        tables.set(META_REVISION, FIRST_REVISION)?;
        tables.set(META_COMPACTED, 0)?;
    }
    write.commit().map_err(from_redb)
}

/// Opens a database file, after making sure that it is one of ours.
pub(super) fn open_engine(path: &Path, cache_bytes: usize) -> Result<Engine, FileError> {
    refuse_other_files(path)?;
    let disk = FileDisk {
        path: path.to_owned(),
    };
    let opening = catch_unwind(|| {
        check_unchanged(path)?;
        let engine = Engine::open(Box::new(disk), cache_bytes);
        let engine = engine.map_err(|error| not_opened(path, error))?;
        engine
            .with_database(|database| Ok(check_format(path, database)))
            .map_err(|error| FileError::damaged(path, error))??;
        Ok(engine)
    });
    opening.unwrap_or_else(|_| Err(FileError::damaged(path, PAGES_DO_NOT_FIT)))
}

/// Looks whose database it is without writing to it, which opening it does. One that was not closed has to
/// be repaired before it can be read, and is looked at afterwards.
fn check_unchanged(path: &Path) -> Result<(), FileError> {
    match ReadOnlyDatabase::open(path) {
        Ok(database) => check_format(path, &database),
        Err(DatabaseError::RepairAborted) => Ok(()),
        Err(error) => Err(not_opened(path, error)),
    }
}

fn not_opened(path: &Path, error: DatabaseError) -> FileError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => FileError::InUse {
            path: path.to_owned(),
            process: "unknown".to_owned(),
        },
        DatabaseError::Storage(redb::StorageError::Io(source))
            if source.kind() != io::ErrorKind::InvalidData
                && source.kind() != io::ErrorKind::UnexpectedEof =>
        {
            FileError::io(path)(source)
        }
        error => FileError::damaged(path, error),
    }
}

fn check_format(path: &Path, database: &impl ReadableDatabase) -> Result<(), FileError> {
    let format = Snapshot::open(database)
        .and_then(|snapshot| snapshot.number(META_FORMAT))
        .map_err(|error| FileError::Foreign {
            path: path.to_owned(),
            found: format!("it is a database of another program ({error})"),
        })?;
    if format != FORMAT {
        return Err(FileError::OtherFormat {
            path: path.to_owned(),
            found: format,
        });
    }
    Ok(())
}

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    // The objects of a cluster include its secrets.
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// A directory without a store must hold nothing else: it may be somebody's data.
fn refuse_foreign(path: &Path) -> Result<(), FileError> {
    if path.join(DATABASE).exists() {
        return Ok(());
    }
    let known = [LOCK, UNFINISHED].map(OsStr::new);
    for item in fs::read_dir(path).map_err(FileError::io(path))? {
        let name = item.map_err(FileError::io(path))?.file_name();
        if !known.contains(&name.as_os_str()) {
            return Err(FileError::Foreign {
                path: path.to_owned(),
                found: format!("it holds {name:?} but no {DATABASE}"),
            });
        }
    }
    Ok(())
}

fn refuse_other_files(path: &Path) -> Result<(), FileError> {
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start))
        .map_err(FileError::io(path))?;
    if start.is_empty() {
        return Err(FileError::damaged(path, "the file is empty"));
    }
    if start != MAGIC {
        return Err(FileError::Foreign {
            path: path.to_owned(),
            found: "the file does not begin like a database".to_owned(),
        });
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, FileError> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(FileError::io(path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            // Only for the message: whoever holds the lock may be about to write its id.
            let _ = file.read_to_string(&mut process);
            let directory = path.parent().unwrap_or(path);
            return Err(FileError::InUse {
                path: directory.to_owned(),
                process: process.trim().to_owned(),
            });
        }
        Err(TryLockError::Error(source)) => return Err(FileError::io(path)(source)),
    }
    let process = std::process::id();
    file.set_len(0)
        .and_then(|()| writeln!(file, "{process}"))
        .map_err(FileError::io(path))?;
    Ok(file)
}

#[derive(Debug)]
struct FileDisk {
    path: PathBuf,
}

impl Disk for FileDisk {
    fn open(&self, builder: &mut redb::Builder) -> Result<Database, DatabaseError> {
        // Not `create`, which would make a new database in an emptied file.
        builder.open(&self.path)
    }

    fn bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }
}

/// Makes the tables on a disk that is new.
pub(super) fn initialise_if_new(engine: &Engine) -> crate::Result<()> {
    engine.with_database(|database| {
        let read = database.begin_read().map_err(from_redb)?;
        match read.open_table(META) {
            Err(redb::TableError::TableDoesNotExist(_)) => initialise(database),
            _ => Ok(()),
        }
    })
}
