//! What the log lies on: a folder of files, or a simulated disk in tests.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::file::private;

/// A place for files with names.
pub trait Disk: Debug + Send + Sync + 'static {
    fn names(&self) -> io::Result<Vec<String>>;

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Makes an empty file, in place of one that has the name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, in place of one that has it; durable when it returns.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes the name away. Whoever has the file open can go on reading it.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;

    /// Fills `out`, or fails.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes`. When it fails, any part of them may have been written.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file off, or makes it longer with zeros.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Makes everything that was written durable, and the size as well.
    fn sync(&self) -> io::Result<()>;
}

/// A folder of this machine.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Open from the beginning: a process that has too many files open can still sync it.
    handle: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Folder {
            path: path.to_owned(),
            handle: File::open(path)?,
        })
    }
}

impl Disk for Folder {
    fn names(&self) -> io::Result<Vec<String>> {
        let name = |item: io::Result<fs::DirEntry>| {
            item.map(|item| item.file_name().to_string_lossy().into_owned())
        };
        fs::read_dir(&self.path)?.map(name).collect()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = private().open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = private();
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
