//! The data directory: who may use it, and what lies in it.
//!
//! ```text
//! DIR/LOCK      held by the process that uses the directory; its id is inside
//! DIR/log/      the log
//! DIR/log.new/  a log in the making, renamed when it is whole
//! ```

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::disk::{Disk, Folder};
use super::file::{FileError, private, put_in_place, sync_parent};
use super::log::{FIRST_REVISION, is_segment, make_first_segment};

const LOCK: &str = "LOCK";
const LOG: &str = "log";
const UNFINISHED: &str = "log.new";

/// What stores of format 1 lie in.
const FORMAT_1: &str = "store.redb";

/// A data directory that this process holds. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Takes hold of the directory, and creates it if need be. What is foreign is left untouched.
    pub(super) fn hold(path: &Path) -> Result<Self, FileError> {
        create(path).map_err(FileError::io(path))?;
        refuse_foreign(path)?;
        let lock = lock(&path.join(LOCK))?;
        Ok(Directory {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Takes hold of a directory that holds a store.
    pub(super) fn hold_existing(path: &Path) -> Result<Self, FileError> {
        if !path.join(LOG).exists() {
            refuse_format_1(path)?;
            return Err(FileError::Missing {
                path: path.to_owned(),
            });
        }
        Self::hold(path)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Makes a new log with `fill`, and puts it in place only when it is whole and on disk.
    pub(super) fn create_log(
        &self,
        fill: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let unfinished = self.path.join(UNFINISHED);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FileError::io(&unfinished)(error));
            }
            _ => {}
        }
        create(&unfinished).map_err(FileError::io(&unfinished))?;
        let folder = Folder::open(&unfinished).map_err(FileError::io(&unfinished))?;
        let filled = fill(&folder).and_then(|()| put_in_place(&unfinished, &self.log()));
        filled.inspect_err(|_| {
            // It is ours and useless; what matters is why.
            let _ = fs::remove_dir_all(&unfinished);
        })
    }

    /// Makes the log of a store that nobody has written to.
    pub(super) fn create_empty_log(&self) -> Result<(), FileError> {
        self.create_log(|folder| {
            let made = make_first_segment(folder, FIRST_REVISION + 1);
            made.map_err(|error| FileError::not_written(&self.log(), error))
        })
    }
}

/// Makes an empty log on a disk that is new.
pub(super) fn initialise_if_new(disk: &dyn Disk) -> io::Result<()> {
    let is_new = !disk.names()?.iter().any(|name| is_segment(name));
    if is_new {
        make_first_segment(disk, FIRST_REVISION + 1)?;
    }
    Ok(())
}

/// Creates the directory and what is missing above it, and makes that durable.
fn create(path: &Path) -> io::Result<()> {
    let missing: Vec<_> = path
        .ancestors()
        .take_while(|place| !place.exists())
        .collect();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    // The objects of a cluster include its secrets.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    let created = missing
        .iter()
        .rev()
        .filter(|place| !place.as_os_str().is_empty());
    for place in created {
        sync_parent(place)?;
    }
    Ok(())
}

/// A directory without a store must hold nothing else: it may be somebody's data.
fn refuse_foreign(path: &Path) -> Result<(), FileError> {
    if path.join(LOG).exists() {
        return Ok(());
    }
    refuse_format_1(path)?;
    // The log as well: another process may be making it at this moment.
    let known = [LOCK, UNFINISHED, LOG].map(OsStr::new);
    for item in fs::read_dir(path).map_err(FileError::io(path))? {
        let name = item.map_err(FileError::io(path))?.file_name();
        if !known.contains(&name.as_os_str()) {
            return Err(FileError::Foreign {
                path: path.to_owned(),
                found: format!("it holds {name:?} but no {LOG}"),
            });
        }
    }
    Ok(())
}

fn refuse_format_1(path: &Path) -> Result<(), FileError> {
    let path = path.join(FORMAT_1);
    if path.exists() {
        return Err(FileError::OtherFormat { path, found: 1 });
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, FileError> {
    let opened = private().create(true).truncate(false).open(path);
    let mut file = opened.map_err(FileError::io(path))?;
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
        Err(TryLockError::Error(error)) => return Err(FileError::io(path)(error)),
    }
    let process = std::process::id();
    file.set_len(0)
        .and_then(|()| writeln!(file, "{process}"))
        .map_err(FileError::io(path))?;
    Ok(file)
}
