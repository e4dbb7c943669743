//! A simulated disk that loses unsynced data, tears writes, fills up and fails on demand.
//!
//! Every operation is recorded, so that a test can rebuild the disk as a crash after any operation would leave it.

// Each test binary that includes this module uses only a part of it.
#![allow(dead_code)]

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use rhumb_store::embedded::{Disk, DiskFile};
use rhumb_store_conformance::SeededRng;

const PAGE_BYTES: usize = 4096;

/// Linux error numbers.
const EIO: i32 = 5;
const EMFILE: i32 = 24;

/// Identifies a file independently of its name, like an inode number.
type FileId = usize;

#[derive(Debug, Clone)]
pub(crate) enum DiskOperation {
    Create {
        name: String,
        file: FileId,
    },
    Write {
        file: FileId,
        offset: usize,
        bytes: Vec<u8>,
    },
    SetSize {
        file: FileId,
        size: usize,
    },
    Sync {
        file: FileId,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
}

impl DiskOperation {
    /// Whether it changes directory entries, and is durable only after the next rename, which syncs the directory.
    fn is_about_names(&self) -> bool {
        matches!(
            self,
            DiskOperation::Create { .. } | DiskOperation::Remove { .. }
        )
    }

    fn file(&self) -> Option<FileId> {
        match self {
            DiskOperation::Write { file, .. }
            | DiskOperation::SetSize { file, .. }
            | DiskOperation::Sync { file } => Some(*file),
            _ => None,
        }
    }
}

/// The contents of a disk: directory entries and file data.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiskImage {
    names: BTreeMap<String, FileId>,
    files: BTreeMap<FileId, Vec<u8>>,
}

impl DiskImage {
    /// Applies an operation; of a write only the first `bytes_max` bytes.
    pub(crate) fn apply(&mut self, operation: &DiskOperation, bytes_max: usize) {
        match operation {
            DiskOperation::Create { name, file } => {
                self.names.insert(name.clone(), *file);
                self.files.entry(*file).or_default();
            }
            DiskOperation::Write {
                file,
                offset,
                bytes,
            } => {
                let content = self.files.entry(*file).or_default();
                let bytes = &bytes[..bytes.len().min(bytes_max)];
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
            DiskOperation::SetSize { file, size } => {
                self.files.entry(*file).or_default().resize(*size, 0);
            }
            DiskOperation::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            DiskOperation::Remove { name } => {
                self.names.remove(name);
            }
            DiskOperation::Sync { .. } => {}
        }
    }

    /// Applies an operation; of a write only a random subset of its sectors.
    fn apply_random_sectors(&mut self, operation: &DiskOperation, random: &mut SeededRng) {
        const SECTOR_BYTES: usize = 512;
        let DiskOperation::Write {
            file,
            offset,
            bytes,
        } = operation
        else {
            return self.apply(operation, usize::MAX);
        };
        let mut start = 0;
        while start < bytes.len() {
            let end = ((offset + start) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
            let end = end.min(bytes.len());
            if random.below(3) > 0 {
                let sector = DiskOperation::Write {
                    file: *file,
                    offset: offset + start,
                    bytes: bytes[start..end].to_vec(),
                };
                self.apply(&sector, usize::MAX);
            }
            start = end;
        }
    }

    /// The number of log segments.
    pub(crate) fn segment_count(&self) -> usize {
        let is_segment = |name: &&String| name.ends_with(".log");
        self.names.keys().filter(is_segment).count()
    }
}

#[derive(Debug, Default)]
struct SimulatedDiskState {
    /// The contents as seen by the process, synced or not.
    image: DiskImage,
    trace: Vec<DiskOperation>,
    next_file: FileId,
    pages_max: Option<usize>,
    failing_syncs: bool,
    failing_reads: usize,
    /// The range of upcoming syncs that fail with a full disk, although all data was written.
    full_syncs: std::ops::Range<usize>,
    /// After this many syncs every write fails with a full disk, even into allocated space.
    syncs_until_full: Option<usize>,
    writes: usize,
    /// How many upcoming renames take effect but report a failed directory sync.
    failing_renames: usize,
    /// The same, only for renames that replace another file.
    failing_replacements: usize,
    /// Whether everything that needs a new file descriptor fails with EMFILE.
    is_out_of_descriptors: bool,
    /// A file and an offset that cannot be read.
    bad_sector: Option<(String, usize)>,
}

/// Handle of a simulated disk; clones share the disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimulatedDisk(Arc<Mutex<SimulatedDiskState>>);

impl SimulatedDisk {
    pub(crate) fn with_image(image: DiskImage) -> Self {
        SimulatedDisk(Arc::new(Mutex::new(SimulatedDiskState {
            next_file: image.files.keys().last().map_or(0, |last| last + 1),
            image,
            ..SimulatedDiskState::default()
        })))
    }

    fn state(&self) -> MutexGuard<'_, SimulatedDiskState> {
        self.0.lock()
    }

    /// The number of operations so far.
    pub(crate) fn operation_count(&self) -> usize {
        self.state().trace.len()
    }

    pub(crate) fn trace(&self) -> Vec<DiskOperation> {
        self.state().trace.clone()
    }

    /// Limits the free space to this many pages; `None` removes the limit.
    pub(crate) fn limit_free_pages(&self, pages: Option<usize>) {
        let mut state = self.state();
        let used = state.pages();
        state.pages_max = pages.map(|pages| used + pages);
    }

    /// Fails the next `count` reads.
    pub(crate) fn fail_reads(&self, count: usize) {
        self.state().failing_reads = count;
    }

    /// Fails this range of the upcoming syncs with a full disk.
    pub(crate) fn fail_syncs_with_enospc(&self, which: std::ops::Range<usize>) {
        self.state().full_syncs = which;
    }

    /// After this many syncs fails every write with a full disk; `None` removes the limit.
    pub(crate) fn fill_after_syncs(&self, syncs: Option<usize>) {
        self.state().syncs_until_full = syncs;
    }

    /// Makes the next `count` renames take effect but fail, as if the directory sync found the disk full.
    pub(crate) fn fail_rename_syncs(&self, count: usize) {
        self.state().failing_renames = count;
    }

    /// The same, only for renames that replace another file.
    pub(crate) fn fail_replacing_rename_syncs(&self, count: usize) {
        self.state().failing_replacements = count;
    }

    /// Whether everything that needs a new file descriptor fails with EMFILE.
    pub(crate) fn set_out_of_descriptors(&self, is_out: bool) {
        self.state().is_out_of_descriptors = is_out;
    }

    /// Makes a byte of a file unreadable.
    pub(crate) fn break_sector(&self, name: &str, offset: usize) {
        self.state().bad_sector = Some((name.to_owned(), offset));
    }

    pub(crate) fn bytes_used(&self) -> usize {
        let state = self.state();
        state
            .image
            .names
            .values()
            .map(|file| state.image.files[file].len())
            .sum()
    }

    pub(crate) fn file_names(&self) -> Vec<String> {
        self.state().image.names.keys().cloned().collect()
    }

    /// The number of attempted writes.
    pub(crate) fn write_attempts(&self) -> usize {
        self.state().writes
    }

    pub(crate) fn fail_syncs(&self, failing: bool) {
        self.state().failing_syncs = failing;
    }
}

impl SimulatedDiskState {
    fn apply(&mut self, operation: DiskOperation) {
        self.image.apply(&operation, usize::MAX);
        self.trace.push(operation);
    }

    fn take_descriptor(&self) -> io::Result<()> {
        match self.is_out_of_descriptors {
            true => Err(io::Error::from_raw_os_error(EMFILE)),
            false => Ok(()),
        }
    }

    /// The number of pages used by all linked files.
    fn pages(&self) -> usize {
        let names = self.image.names.values();
        names
            .map(|file| self.image.files[file].len().div_ceil(PAGE_BYTES))
            .sum()
    }

    /// How many bytes of a write fit on the disk.
    fn writable_bytes(&self, file: FileId, offset: usize, bytes: usize) -> usize {
        if self.syncs_until_full == Some(0) {
            return 0;
        }
        let Some(max) = self.pages_max else {
            return bytes;
        };
        let own = self.image.files[&file].len().div_ceil(PAGE_BYTES);
        let end = (own + max.saturating_sub(self.pages())) * PAGE_BYTES;
        bytes.min(end.saturating_sub(offset))
    }
}

impl Disk for SimulatedDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        self.state().take_descriptor()?;
        Ok(self.file_names())
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        Ok(self.state().image.names.contains_key(name))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.state().take_descriptor()?;
        let file = self.state().image.names.get(name).copied();
        let number = file.ok_or(io::ErrorKind::NotFound)?;
        let disk = self.clone();
        Ok(Box::new(SimulatedFile { disk, number }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.take_descriptor()?;
        let number = state.next_file;
        state.next_file += 1;
        state.apply(DiskOperation::Create {
            name: name.to_owned(),
            file: number,
        });
        let disk = self.clone();
        Ok(Box::new(SimulatedFile { disk, number }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.image.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let replaces = state.image.names.contains_key(to);
        state.apply(DiskOperation::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        });
        if state.failing_renames > 0 {
            state.failing_renames -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        if replaces && state.failing_replacements > 0 {
            state.failing_replacements -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        if !state.image.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.apply(DiskOperation::Remove {
            name: name.to_owned(),
        });
        Ok(())
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    number: FileId,
}

impl DiskFile for SimulatedFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().image.files[&self.number].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        if state.failing_reads > 0 {
            state.failing_reads -= 1;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let offset = offset as usize;
        if let Some((name, bad)) = &state.bad_sector
            && state.image.names.get(name) == Some(&self.number)
            && (offset..offset + out.len()).contains(bad)
        {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let bytes = state.image.files[&self.number].get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// Writes the part that fits, and fails if that is not all.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.writes += 1;
        let (file, offset) = (self.number, offset as usize);
        let writable = state.writable_bytes(file, offset, bytes.len());
        state.apply(DiskOperation::Write {
            file,
            offset,
            bytes: bytes[..writable].to_vec(),
        });
        if writable < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let size = size as usize;
        let file = self.number;
        self.disk
            .state()
            .apply(DiskOperation::SetSize { file, size });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        if state.failing_syncs {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let full = state.full_syncs.contains(&0);
        let earlier = |bound: usize| bound.saturating_sub(1);
        state.full_syncs = earlier(state.full_syncs.start)..earlier(state.full_syncs.end);
        if full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(syncs) = &mut state.syncs_until_full {
            *syncs = syncs.saturating_sub(1);
        }
        state.apply(DiskOperation::Sync { file: self.number });
        Ok(())
    }
}

/// A possible disk image after a crash after `count` operations: everything synced, and a random part of the rest,
/// some of it torn.
pub(crate) fn image_after_crash(
    base: &DiskImage,
    trace: &[DiskOperation],
    count: usize,
    random: &mut SeededRng,
) -> DiskImage {
    let trace = &trace[..count];
    let mut synced = BTreeMap::new();
    let mut names_synced = 0;
    for (position, operation) in trace.iter().enumerate() {
        match operation {
            DiskOperation::Sync { file } => {
                synced.insert(*file, position);
            }
            DiskOperation::Rename { .. } => names_synced = position,
            _ => {}
        }
    }
    let mut image = base.clone();
    for (position, operation) in trace.iter().enumerate() {
        let durable = match operation.file() {
            Some(file) => synced.get(&file).is_some_and(|synced| position < *synced),
            None => !operation.is_about_names() || position < names_synced,
        };
        match random.below(5) {
            _ if durable => image.apply(operation, usize::MAX),
            0 => {}
            1 => image.apply(operation, random.below(PAGE_BYTES)),
            2 => image.apply_random_sectors(operation, random),
            _ => image.apply(operation, usize::MAX),
        }
    }
    image
}
