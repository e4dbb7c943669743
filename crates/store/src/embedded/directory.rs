//! The data directory: layout, lock file, creation of a new log.
//!
//! ```text
//! DIR           locked by the process that uses it
//! DIR/LOCK      locked too; contains the process id. Older versions lock only this file
//! DIR/log/      the log
//! DIR/log.new/  an unfinished new log, renamed to log/ when it is complete
//! ```

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::disk::{Disk, DiskDirectory};
use super::file::{DataDirectoryError, owner_only_options, rename_into_place, sync_parent};
use super::log::{FIRST_REVISION, create_active_segment, is_segment};

const LOCK: &str = "LOCK";
const LOG: &str = "log";
const UNFINISHED_LOG: &str = "log.new";

/// The file of a store in format 1.
const FORMAT_1_FILE: &str = "store.redb";

/// A data directory locked by this process. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    _lock: DirectoryLock,
}

/// The locks on a data directory and on its lock file. The directory is locked as well, because a lock file can be
/// deleted, and would then be created and locked by a second process.
#[derive(Debug)]
struct DirectoryLock {
    /// None if the file system cannot lock directories.
    directory: Option<File>,
    file: File,
}

impl DataDirectory {
    /// Locks the directory, creating it if needed. A directory with foreign files is rejected and not changed.
    pub(super) fn lock(path: &Path) -> Result<Self, DataDirectoryError> {
        create_durably(path).map_err(DataDirectoryError::io(path))?;
        reject_foreign_files(path)?;
        let lock = DirectoryLock::acquire(path)?;
        Ok(DataDirectory {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Locks a directory that contains a store.
    pub(super) fn lock_existing(path: &Path) -> Result<Self, DataDirectoryError> {
        if !path.join(LOG).exists() {
            reject_format_1(path)?;
            return Err(DataDirectoryError::Missing {
                path: path.to_owned(),
            });
        }
        Self::lock(path)
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Creates a new log with `fill`, and renames it into place when it is complete and durable.
    pub(super) fn create_log(
        &self,
        fill: impl FnOnce(&DiskDirectory) -> Result<(), DataDirectoryError>,
    ) -> Result<(), DataDirectoryError> {
        let unfinished = self.path.join(UNFINISHED_LOG);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(DataDirectoryError::io(&unfinished)(error));
            }
            _ => {}
        }
        create_durably(&unfinished).map_err(DataDirectoryError::io(&unfinished))?;
        let log_directory =
            DiskDirectory::open(&unfinished).map_err(DataDirectoryError::io(&unfinished))?;
        let filled =
            fill(&log_directory).and_then(|()| rename_into_place(&unfinished, &self.log_path()));
        filled.inspect_err(|_| {
            // Best effort: the original error is what matters.
            let _ = fs::remove_dir_all(&unfinished);
        })
    }

    /// Creates the log of an empty store.
    pub(super) fn create_empty_log(&self) -> Result<(), DataDirectoryError> {
        self.create_log(|log_directory| {
            let made = create_active_segment(log_directory, FIRST_REVISION + 1);
            made.map_err(|error| DataDirectoryError::not_written(&self.log_path(), error))
        })
    }
}

/// Creates an empty log on a disk that has no segments.
pub(super) fn initialise_if_new(disk: &dyn Disk) -> io::Result<()> {
    let is_new = !disk.names()?.iter().any(|name| is_segment(name));
    if is_new {
        create_active_segment(disk, FIRST_REVISION + 1)?;
    }
    Ok(())
}

/// Creates the directory and its missing parents durably.
fn create_durably(path: &Path) -> io::Result<()> {
    let missing: Vec<_> = path
        .ancestors()
        .take_while(|ancestor| !ancestor.exists())
        .collect();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    // The store contains Secrets.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    let created = missing
        .iter()
        .rev()
        .filter(|ancestor| !ancestor.as_os_str().is_empty());
    for ancestor in created {
        sync_parent(ancestor)?;
    }
    Ok(())
}

/// Rejects a directory without a store that contains other files: they may belong to another program.
fn reject_foreign_files(path: &Path) -> Result<(), DataDirectoryError> {
    if path.join(LOG).exists() {
        return Ok(());
    }
    reject_format_1(path)?;
    // The log is allowed as well: another process may be creating it right now.
    let known = [LOCK, UNFINISHED_LOG, LOG].map(OsStr::new);
    for item in fs::read_dir(path).map_err(DataDirectoryError::io(path))? {
        let name = item.map_err(DataDirectoryError::io(path))?.file_name();
        if !known.contains(&name.as_os_str()) {
            return Err(DataDirectoryError::NotAStore {
                path: path.to_owned(),
                found: format!("it contains {name:?} but no {LOG}"),
            });
        }
    }
    Ok(())
}

fn reject_format_1(path: &Path) -> Result<(), DataDirectoryError> {
    let path = path.join(FORMAT_1_FILE);
    if path.exists() {
        return Err(DataDirectoryError::UnsupportedFormat { path, found: 1 });
    }
    Ok(())
}

impl Drop for DirectoryLock {
    /// Closing the files would not release the locks at once: a child process that another thread is starting has copies
    /// of the file descriptors until it executes its program.
    fn drop(&mut self) {
        // Nothing can be done about an error; the kernel releases the locks when the process ends.
        let _ = self.file.unlock();
        if let Some(directory) = &self.directory {
            let _ = directory.unlock();
        }
    }
}

impl DirectoryLock {
    fn acquire(path: &Path) -> Result<Self, DataDirectoryError> {
        let file_path = path.join(LOCK);
        let in_use = || DataDirectoryError::InUse {
            path: path.to_owned(),
            // Only for the error message: the lock holder may not have written its id yet.
            process: fs::read_to_string(&file_path)
                .map(|process| process.trim().to_owned())
                .unwrap_or_default(),
        };
        let directory = File::open(path).map_err(DataDirectoryError::io(path))?;
        let directory = match directory.try_lock() {
            Ok(()) => Some(directory),
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            // Network file systems may refuse to lock a directory.
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, path = %path.display(), "failed to lock the data directory; relying on its lock file");
                None
            }
        };
        let opened = owner_only_options()
            .create(true)
            .truncate(false)
            .open(&file_path);
        let mut file = opened.map_err(DataDirectoryError::io(&file_path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(error)) => {
                return Err(DataDirectoryError::io(&file_path)(error));
            }
        }
        let process = std::process::id();
        file.set_len(0)
            .and_then(|()| writeln!(file, "{process}"))
            .map_err(DataDirectoryError::io(&file_path))?;
        Ok(DirectoryLock { directory, file })
    }
}
