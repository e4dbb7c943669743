//! Database files: opened, made, and put in place, so that what is foreign is left alone and what is half done
//! is never seen.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use redb::{Builder, Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase, TableError};

use super::contents::Contents;
use super::engine::{Disk, Engine};
use super::fault::{PAGES_DO_NOT_FIT, from_redb, quietly, short};
use super::layout::{FORMAT, FORMATS};
use super::read::Snapshot;
use crate::Range;

/// What every database file begins with.
const MAGIC: &[u8] = b"redb";

/// For files that are read or written once, from end to end.
const PAGE_CACHE_BYTES: usize = 16 * 1024 * 1024;

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

    #[error("{key} in {path} is not damaged: delete it through the API")]
    NotDamaged { path: PathBuf, key: String },

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

    /// The same, of the file that people know, where it was another that stands in for it.
    pub(super) fn about(self, path: &Path) -> FileError {
        let path = path.to_owned();
        match self {
            FileError::Io { error, .. } => FileError::Io { path, error },
            FileError::NotWritten { reason, .. } => FileError::NotWritten { path, reason },
            other => other,
        }
    }

    pub(super) fn damaged(path: &Path, reason: impl ToString) -> FileError {
        FileError::Damaged {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// How files are made that may hold secrets: for their owner alone.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Writes a database file that did not exist, and closes it. If that fails there is none.
pub(super) fn write_database(
    path: &Path,
    fill: impl FnOnce(&Database) -> crate::Result<()>,
) -> Result<(), FileError> {
    let file = private().create_new(true).open(path);
    let file = file.map_err(FileError::io(path))?;
    let written = Builder::new()
        .set_cache_size(PAGE_CACHE_BYTES)
        .create_file(file)
        .map_err(from_redb)
        .and_then(|database| fill(&database))
        .and_then(|()| sync(path).map_err(|error| super::fault::from_io(&error)));
    written.map_err(|error| {
        // It is ours and useless; what matters is why.
        let _ = fs::remove_file(path);
        FileError::not_written(path, short(&error))
    })
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes what has happened in the directory of `path` durable.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync(parent),
        _ => sync(Path::new(".")),
    }
}

/// Gives a finished file its name, in place of what may have had it.
pub(super) fn put_in_place(finished: &Path, place: &Path) -> Result<(), FileError> {
    fs::rename(finished, place)
        .and_then(|()| sync_parent(place))
        .map_err(FileError::io(place))
}

/// Gives a finished file its name, unless there is one of that name.
pub(super) fn put_in_free_place(finished: &Path, place: &Path) -> Result<(), FileError> {
    let linked = match fs::hard_link(finished, place) {
        Ok(()) => sync_parent(place).map_err(FileError::io(place)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(FileError::Exists {
            path: place.to_owned(),
        }),
        // A file system without links.
        Err(_) => return put_in_place(finished, place),
    };
    // The file has its name or is not wanted; this one is of no more use.
    let _ = fs::remove_file(finished);
    linked
}

/// Opens a store's database file, after making sure that it is one of ours.
pub(super) fn open_engine(path: &Path, cache_bytes: usize) -> Result<Engine, FileError> {
    refuse_other_files(path)?;
    let disk = FileDisk {
        path: path.to_owned(),
    };
    let open = || {
        // Opening it to write changes it, so whose it is is looked up before, if it can be.
        let checked = open_to_read(path)?.is_some();
        let engine = Engine::open(Box::new(disk), cache_bytes);
        let engine = engine.map_err(|error| not_opened(path, error))?;
        if !checked {
            engine
                .with_database(|database| Ok(check_format(path, database)))
                .map_err(|error| FileError::damaged(path, short(&error)))??;
        }
        Ok(engine)
    };
    quietly(open).unwrap_or_else(|| Err(FileError::damaged(path, PAGES_DO_NOT_FIT)))
}

/// Shows everything in a database file that no process is using to `read`. The file is not changed, unless
/// it is a store that was not closed and has to be repaired.
pub(super) fn read_all<T>(
    path: &Path,
    read: impl FnOnce(&Contents) -> Result<T, FileError>,
) -> Result<T, FileError> {
    refuse_other_files(path)?;
    let read = || match open_to_read(path)? {
        Some(database) => read(&contents(path, &database)?),
        None => {
            let engine = open_engine(path, PAGE_CACHE_BYTES)?;
            engine
                .with_database(|database| Ok(contents(path, database).and_then(|all| read(&all))))
                .map_err(|error| FileError::damaged(path, short(&error)))?
        }
    };
    quietly(read).unwrap_or_else(|| Err(FileError::damaged(path, PAGES_DO_NOT_FIT)))
}

fn contents(path: &Path, database: &impl ReadableDatabase) -> Result<Contents, FileError> {
    let contents = || {
        let index = RwLock::new(Snapshot::open(database)?.index()?);
        Contents::of(&Range::prefix(""), &index, database)
    };
    contents().map_err(|error| FileError::damaged(path, short(&error)))
}

/// A database of ours, open to be read; `None` if it was not closed and has to be repaired first.
fn open_to_read(path: &Path) -> Result<Option<ReadOnlyDatabase>, FileError> {
    let opened = Builder::new()
        .set_cache_size(PAGE_CACHE_BYTES)
        .open_read_only(path);
    match opened {
        Ok(database) => check_format(path, &database).map(|()| Some(database)),
        Err(DatabaseError::RepairAborted) => Ok(None),
        Err(error) => Err(not_opened(path, error)),
    }
}

fn not_opened(path: &Path, error: DatabaseError) -> FileError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => FileError::InUse {
            path: path.to_owned(),
            process: "unknown".to_owned(),
        },
        DatabaseError::Storage(redb::StorageError::Io(error))
            if error.kind() != io::ErrorKind::InvalidData
                && error.kind() != io::ErrorKind::UnexpectedEof =>
        {
            FileError::io(path)(error)
        }
        error => FileError::damaged(path, error),
    }
}

fn check_format(path: &Path, database: &impl ReadableDatabase) -> Result<(), FileError> {
    let damaged = |error: redb::Error| FileError::damaged(path, short(&from_redb(error)));
    let read = database
        .begin_read()
        .map_err(|error| damaged(error.into()))?;
    let formats = match read.open_table(FORMATS) {
        Ok(formats) => formats,
        Err(TableError::Storage(error)) => return Err(damaged(error.into())),
        Err(error) => {
            return Err(FileError::Foreign {
                path: path.to_owned(),
                found: format!("it is a database of another program ({error})"),
            });
        }
    };
    let format = redb::ReadableTable::get(&formats, ()).map_err(|error| damaged(error.into()))?;
    match format.map(|format| format.value()) {
        Some(FORMAT) => Ok(()),
        found => Err(FileError::OtherFormat {
            path: path.to_owned(),
            found: found.unwrap_or_default(),
        }),
    }
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

#[derive(Debug)]
struct FileDisk {
    path: PathBuf,
}

impl Disk for FileDisk {
    fn open(&self, builder: &mut Builder) -> Result<Database, DatabaseError> {
        // Not `create`, which would make a new database in an emptied file.
        builder.open(&self.path)
    }

    fn bytes(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }
}
