//! File helpers and the error type for data directories and backups.
//!
//! Files are written under a temporary name and published by rename or link, so that an incomplete file is never
//! visible under its final name and foreign files are never overwritten.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::log::{FORMAT, LogLoadError, LogLoadErrorKind};

/// A data directory or backup file cannot be used. Existing data was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataDirectoryError {
    #[error("{path} is in use by process {process}: stop it, or choose another data directory")]
    InUse { path: PathBuf, process: String },

    #[error(
        "{path} is not a rhumb store: {found}; choose another path, or move the existing files away"
    )]
    NotAStore { path: PathBuf, found: String },

    #[error(
        "{path} is damaged: {reason}; move it away and restore a backup with `rhumb store restore`, or start with an \
         empty directory"
    )]
    Damaged { path: PathBuf, reason: String },

    #[error(
        "{path} has format {found}, but this version of rhumb reads format {FORMAT}: use the version that wrote it"
    )]
    UnsupportedFormat { path: PathBuf, found: u32 },

    #[error("there is no store in {path}: give the data directory of a rhumb server")]
    Missing { path: PathBuf },

    #[error("{path} already contains a store: restore into an empty directory")]
    Occupied { path: PathBuf },

    #[error("{path} exists already: choose another name, a backup never overwrites a file")]
    Exists { path: PathBuf },

    #[error("{key} in {path} is not damaged: delete it through the API instead")]
    NotDamaged { path: PathBuf, key: String },

    #[error("failed to write {path}: {reason}")]
    NotWritten { path: PathBuf, reason: String },

    #[error("cannot use {path}: {error}")]
    Io { path: PathBuf, error: io::Error },
}

impl DataDirectoryError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> DataDirectoryError {
        let path = path.to_owned();
        |error| DataDirectoryError::Io { path, error }
    }

    pub(super) fn not_written(path: &Path, reason: impl ToString) -> DataDirectoryError {
        DataDirectoryError::NotWritten {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Converts the error of loading a log in `log_path`.
    pub(super) fn from_load_error(
        log_path: &Path,
    ) -> impl FnOnce(LogLoadError) -> DataDirectoryError {
        let log_path = log_path.to_owned();
        move |LogLoadError { file, kind: why }| {
            let path = log_path.join(file);
            match why {
                LogLoadErrorKind::Io(error) => DataDirectoryError::Io { path, error },
                LogLoadErrorKind::UnsupportedFormat(found) => {
                    DataDirectoryError::UnsupportedFormat { path, found }
                }
                LogLoadErrorKind::Damaged(reason) => DataDirectoryError::Damaged { path, reason },
                LogLoadErrorKind::NotALog => DataDirectoryError::NotAStore {
                    path,
                    found: "the file does not start with the magic bytes of a rhumb log".to_owned(),
                },
            }
        }
    }

    pub(super) fn damaged(path: &Path, reason: impl ToString) -> DataDirectoryError {
        DataDirectoryError::Damaged {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// Options for files that may hold secrets: readable and writable by the owner only.
pub(super) fn owner_only_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Syncs the parent directory of `path`.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync(parent),
        _ => sync(Path::new(".")),
    }
}

/// Renames a finished file to its final name, replacing an existing file.
pub(super) fn rename_into_place(finished: &Path, target: &Path) -> Result<(), DataDirectoryError> {
    fs::rename(finished, target)
        .and_then(|()| sync_parent(target))
        .map_err(DataDirectoryError::io(target))
}

/// Gives a finished file its final name; fails if that name exists.
pub(super) fn publish_without_overwrite(
    finished: &Path,
    target: &Path,
) -> Result<(), DataDirectoryError> {
    let linked = match fs::hard_link(finished, target) {
        Ok(()) => sync_parent(target).map_err(DataDirectoryError::io(target)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(DataDirectoryError::Exists {
                path: target.to_owned(),
            })
        }
        // The file system does not support hard links.
        Err(_) => return rename_into_place(finished, target),
    };
    // The temporary name is no longer needed, whether or not the link was created.
    let _ = fs::remove_file(finished);
    linked
}
