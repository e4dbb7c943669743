//! File access of the log behind a trait: a local directory, or a simulated disk in tests.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::file::owner_only_options;

/// A flat directory of named files.
pub trait Disk: Debug + Send + Sync + 'static {
    fn names(&self) -> io::Result<Vec<String>>;

    /// Needs no file descriptor.
    fn exists(&self, name: &str) -> io::Result<bool>;

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Creates an empty file, replacing an existing one.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, replacing an existing one. Durable when it returns.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Unlinks a file. Open handles can still read it.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// An open file of a [`Disk`].
pub trait DiskFile: Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;

    /// Fills `out` completely, or fails.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes`. On failure any part of them may have been written.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the file, or extends it with zeros.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Makes all written data and the file size durable (fdatasync).
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the local file system.
#[derive(Debug)]
pub(super) struct DiskDirectory {
    path: PathBuf,
    /// Kept open, so that the directory can be synced even when the process is out of file descriptors.
    handle: File,
}

impl DiskDirectory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(DiskDirectory {
            path: path.to_owned(),
            handle: File::open(path)?,
        })
    }
}

impl Disk for DiskDirectory {
    fn names(&self) -> io::Result<Vec<String>> {
        let name = |item: io::Result<fs::DirEntry>| {
            item.map(|item| item.file_name().to_string_lossy().into_owned())
        };
        fs::read_dir(&self.path)?.map(name).collect()
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.path.join(name).try_exists()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = owner_only_options().open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = owner_only_options();
        let file = options
            .create(true)
            .truncate(true)
            .open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))?;
        self.handle.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
