//! Files and folders: opened, made, and put in place, so that what is foreign is left alone and what is half done
//! is never seen.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::log::{FORMAT, Unreadable, Why};

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
    OtherFormat { path: PathBuf, found: u32 },

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

    /// Of a file of the log that lies in this folder.
    pub(super) fn unreadable(folder: &Path) -> impl FnOnce(Unreadable) -> FileError {
        let folder = folder.to_owned();
        move |Unreadable { file, why }| {
            let path = folder.join(file);
            match why {
                Why::Io(error) => FileError::Io { path, error },
                Why::OtherFormat(found) => FileError::OtherFormat { path, found },
                Why::Damaged(reason) => FileError::Damaged { path, reason },
                Why::Foreign => FileError::Foreign {
                    path,
                    found: "the file does not begin like a log".to_owned(),
                },
            }
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
