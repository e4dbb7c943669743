//! A disk that loses what was not synced, tears writes, fills up and fails on demand.
//!
//! Every operation is recorded, so that a test can ask what a crash after any of them would have left.

// Each test that includes this uses a part of it.
#![allow(dead_code)]

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Database, DatabaseError, StorageBackend};
use rhumb_store::embedded::Disk;
use rhumb_store_conformance::Random;

const PAGE_BYTES: usize = 4096;

/// As a kernel reports it.
const EIO: i32 = 5;

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
    Sync,
}

#[derive(Debug, Default)]
struct State {
    /// What the operating system shows, synced or not.
    content: Vec<u8>,
    trace: Vec<Operation>,
    /// Which pages have room on the disk: a file that was only made longer has none.
    allocated: Vec<bool>,
    pages_max: Option<usize>,
    failing_syncs: bool,
    failing_reads: usize,
    /// Which of the coming syncs find no room, although all that was written is there.
    full_syncs: std::ops::Range<usize>,
    /// After this many syncs no write finds room, not even where there was one.
    syncs_until_full: Option<usize>,
    opened: usize,
}

/// A handle; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

impl SimulatedDisk {
    pub(crate) fn with_content(content: Vec<u8>) -> Self {
        let pages = content.len().div_ceil(PAGE_BYTES);
        SimulatedDisk(Arc::new(Mutex::new(State {
            content,
            allocated: vec![true; pages],
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
        let used = state.allocated.iter().filter(|used| **used).count();
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

    /// How often it has been opened.
    pub(crate) fn opened(&self) -> usize {
        self.state().opened
    }

    pub(crate) fn fail_syncs(&self, failing: bool) {
        self.state().failing_syncs = failing;
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, builder: &mut redb::Builder) -> Result<Database, DatabaseError> {
        self.state().opened += 1;
        builder.create_with_backend(self.clone())
    }

    fn bytes(&self) -> u64 {
        self.state().content.len() as u64
    }
}

impl State {
    fn allocate(&mut self, offset: usize, len: usize) -> io::Result<()> {
        if self.syncs_until_full == Some(0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let (first, last) = (offset / PAGE_BYTES, (offset + len).div_ceil(PAGE_BYTES));
        if self.allocated.len() < last {
            self.allocated.resize(last, false);
        }
        let new = self.allocated[first..last]
            .iter()
            .filter(|used| !**used)
            .count();
        let used = self.allocated.iter().filter(|used| **used).count();
        if self.pages_max.is_some_and(|max| used + new > max) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.allocated[first..last].fill(true);
        Ok(())
    }
}

impl StorageBackend for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().content.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        if state.failing_reads > 0 {
            state.failing_reads -= 1;
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let offset = offset as usize;
        let bytes = state.content.get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.content.resize(len as usize, 0);
        let pages = (len as usize).div_ceil(PAGE_BYTES);
        state.allocated.resize(pages, false);
        state.trace.push(Operation::SetLen(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
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
        state.trace.push(Operation::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let offset = offset as usize;
        state.allocate(offset, data.len())?;
        state.content[offset..offset + data.len()].copy_from_slice(data);
        state.trace.push(Operation::Write {
            offset,
            bytes: data.to_vec(),
        });
        Ok(())
    }
}

/// What a crash after `count` operations leaves: all that was synced, and of the rest whatever the disk
/// had got to, in any order, some of it torn.
pub(crate) fn after_crash(
    base: &[u8],
    trace: &[Operation],
    count: usize,
    random: &mut Random,
) -> Vec<u8> {
    let trace = &trace[..count];
    let synced = trace
        .iter()
        .rposition(|operation| matches!(operation, Operation::Sync))
        .map_or(0, |last| last + 1);
    let mut image = base.to_vec();
    for operation in &trace[..synced] {
        carry_out(&mut image, operation, usize::MAX);
    }
    for operation in &trace[synced..] {
        match random.below(4) {
            0 => {}
            1 => {
                let torn = random.below(PAGE_BYTES);
                carry_out(&mut image, operation, torn);
            }
            _ => carry_out(&mut image, operation, usize::MAX),
        }
    }
    image
}

/// Carries out an operation; of a write only the first `bytes_max` bytes.
pub(crate) fn carry_out(image: &mut Vec<u8>, operation: &Operation, bytes_max: usize) {
    match operation {
        Operation::Write { offset, bytes } => {
            let bytes = &bytes[..bytes.len().min(bytes_max)];
            let end = offset + bytes.len();
            if image.len() < end {
                image.resize(end, 0);
            }
            image[*offset..end].copy_from_slice(bytes);
        }
        Operation::SetLen(len) => image.resize(*len, 0),
        Operation::Sync => {}
    }
}
