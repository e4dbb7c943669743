//! A disk that loses what was not synced, tears writes, fills up and fails on demand.
//!
//! Every operation is recorded, so that a test can ask what a crash after any of them would have left.

// Each test that includes this uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rhumb_store::embedded::{Disk, DiskFile};
use rhumb_store_conformance::Random;

const PAGE_BYTES: usize = 4096;

/// As a kernel reports it.
const EIO: i32 = 5;
const EMFILE: i32 = 24;

/// A file, whatever its name.
type Number = usize;

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Create {
        name: String,
        file: Number,
    },
    Write {
        file: Number,
        offset: usize,
        bytes: Vec<u8>,
    },
    SetSize {
        file: Number,
        size: usize,
    },
    Sync {
        file: Number,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
}

impl Operation {
    /// Whether it is about names, and durable only once a rename is.
    fn is_about_names(&self) -> bool {
        matches!(self, Operation::Create { .. } | Operation::Remove { .. })
    }

    fn file(&self) -> Option<Number> {
        match self {
            Operation::Write { file, .. }
            | Operation::SetSize { file, .. }
            | Operation::Sync { file } => Some(*file),
            _ => None,
        }
    }
}

/// What lies on a disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    names: BTreeMap<String, Number>,
    files: BTreeMap<Number, Vec<u8>>,
}

impl Image {
    /// Carries out an operation; of a write only the first `bytes_max` bytes.
    pub(crate) fn carry_out(&mut self, operation: &Operation, bytes_max: usize) {
        match operation {
            Operation::Create { name, file } => {
                self.names.insert(name.clone(), *file);
                self.files.entry(*file).or_default();
            }
            Operation::Write {
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
            Operation::SetSize { file, size } => {
                self.files.entry(*file).or_default().resize(*size, 0);
            }
            Operation::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Operation::Remove { name } => {
                self.names.remove(name);
            }
            Operation::Sync { .. } => {}
        }
    }

    /// Carries out an operation; of a write only some sectors, in no order.
    fn carry_out_in_parts(&mut self, operation: &Operation, random: &mut Random) {
        const SECTOR_BYTES: usize = 512;
        let Operation::Write {
            file,
            offset,
            bytes,
        } = operation
        else {
            return self.carry_out(operation, usize::MAX);
        };
        let mut start = 0;
        while start < bytes.len() {
            let end = ((offset + start) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
            let end = end.min(bytes.len());
            if random.below(3) > 0 {
                let sector = Operation::Write {
                    file: *file,
                    offset: offset + start,
                    bytes: bytes[start..end].to_vec(),
                };
                self.carry_out(&sector, usize::MAX);
            }
            start = end;
        }
    }

    /// How many segments there are.
    pub(crate) fn segments(&self) -> usize {
        let is_segment = |name: &&String| name.ends_with(".log");
        self.names.keys().filter(is_segment).count()
    }
}

#[derive(Debug, Default)]
struct State {
    /// What the operating system shows, synced or not.
    image: Image,
    trace: Vec<Operation>,
    next_file: Number,
    pages_max: Option<usize>,
    failing_syncs: bool,
    failing_reads: usize,
    /// Which of the coming syncs find no room, although all that was written is there.
    full_syncs: std::ops::Range<usize>,
    /// After this many syncs no write finds room, not even where there was one.
    syncs_until_full: Option<usize>,
    writes: usize,
    /// How many of the coming renames happen, and then report that making them durable failed.
    failing_renames: usize,
    /// Only those that put a file in the place of another.
    failing_replacements: usize,
    /// How many of the coming files cannot be made, as the process has too many open.
    failing_creates: usize,
    /// A file of which a part cannot be read, ever.
    bad_sector: Option<(String, usize)>,
}

/// A handle; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

impl SimulatedDisk {
    pub(crate) fn with_content(image: Image) -> Self {
        SimulatedDisk(Arc::new(Mutex::new(State {
            next_file: image.files.keys().last().map_or(0, |last| last + 1),
            image,
            ..State::default()
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many operations there have been.
    pub(crate) fn position(&self) -> usize {
        self.state().trace.len()
    }

    pub(crate) fn trace(&self) -> Vec<Operation> {
        self.state().trace.clone()
    }

    /// Leaves room for this many more pages; `None` for all there is.
    pub(crate) fn leave_room(&self, pages: Option<usize>) {
        let mut state = self.state();
        let used = state.pages();
        state.pages_max = pages.map(|pages| used + pages);
    }

    /// Fails the next reads, as many as this.
    pub(crate) fn fail_reads(&self, count: usize) {
        self.state().failing_reads = count;
    }

    /// Lets these of the coming syncs report that there is no room.
    pub(crate) fn fail_syncs_for_lack_of_room(&self, which: std::ops::Range<usize>) {
        self.state().full_syncs = which;
    }

    /// Lets this many syncs pass, and then refuses every write for lack of room.
    pub(crate) fn be_full_after_syncs(&self, syncs: Option<usize>) {
        self.state().syncs_until_full = syncs;
    }

    /// Lets renames happen and then fail, as if the folder could not be synced for lack of room.
    pub(crate) fn fail_renames_late(&self, count: usize) {
        self.state().failing_renames = count;
    }

    /// The same, but only where a file takes the place of another.
    pub(crate) fn fail_replacements_late(&self, count: usize) {
        self.state().failing_replacements = count;
    }

    pub(crate) fn fail_creates(&self, count: usize) {
        self.state().failing_creates = count;
    }

    /// From now on a byte of a file cannot be read.
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

    /// How often somebody has tried to write.
    pub(crate) fn writes(&self) -> usize {
        self.state().writes
    }

    pub(crate) fn fail_syncs(&self, failing: bool) {
        self.state().failing_syncs = failing;
    }
}

impl State {
    fn carry_out(&mut self, operation: Operation) {
        self.image.carry_out(&operation, usize::MAX);
        self.trace.push(operation);
    }

    /// How many pages all files take that somebody can open.
    fn pages(&self) -> usize {
        let names = self.image.names.values();
        names
            .map(|file| self.image.files[file].len().div_ceil(PAGE_BYTES))
            .sum()
    }

    /// How much of a write finds room.
    fn room(&self, file: Number, offset: usize, bytes: usize) -> usize {
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
        Ok(self.state().image.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.state().image.names.get(name).copied();
        let number = file.ok_or(io::ErrorKind::NotFound)?;
        let disk = self.clone();
        Ok(Box::new(SimulatedFile { disk, number }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        if state.failing_creates > 0 {
            state.failing_creates -= 1;
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        let number = state.next_file;
        state.next_file += 1;
        state.carry_out(Operation::Create {
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
        state.carry_out(Operation::Rename {
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
        state.carry_out(Operation::Remove {
            name: name.to_owned(),
        });
        Ok(())
    }
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    number: Number,
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

    /// What finds room is written, also if it is not all of it.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.writes += 1;
        let (file, offset) = (self.number, offset as usize);
        let room = state.room(file, offset, bytes.len());
        state.carry_out(Operation::Write {
            file,
            offset,
            bytes: bytes[..room].to_vec(),
        });
        if room < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let size = size as usize;
        let file = self.number;
        self.disk
            .state()
            .carry_out(Operation::SetSize { file, size });
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
        state.carry_out(Operation::Sync { file: self.number });
        Ok(())
    }
}

/// What a crash after `count` operations leaves: all that was synced, and of the rest whatever the disk
/// had got to, in any order, some of it torn.
pub(crate) fn after_crash(
    base: &Image,
    trace: &[Operation],
    count: usize,
    random: &mut Random,
) -> Image {
    let trace = &trace[..count];
    let mut synced = BTreeMap::new();
    let mut names_synced = 0;
    for (position, operation) in trace.iter().enumerate() {
        match operation {
            Operation::Sync { file } => {
                synced.insert(*file, position);
            }
            Operation::Rename { .. } => names_synced = position,
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
            _ if durable => image.carry_out(operation, usize::MAX),
            0 => {}
            1 => image.carry_out(operation, random.below(PAGE_BYTES)),
            2 => image.carry_out_in_parts(operation, random),
            _ => image.carry_out(operation, usize::MAX),
        }
    }
    image
}
