//! One file of the log, open to be read.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::record::Place;
use crate::embedded::disk::DiskFile;
use crate::{Error, Result};

/// How often a read is tried on a disk that fails.
const READ_ATTEMPTS: usize = 3;

/// Where a record lies in its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct Row {
    revision: u64,
    offset: u64,
    position: u32,
    bytes: u32,
}

impl Row {
    pub(super) fn new(place: Place, offset: u64, bytes: u32) -> Self {
        Row {
            revision: place.revision,
            position: place.position,
            offset,
            bytes,
        }
    }

    pub(in crate::embedded) fn place(&self) -> Place {
        Place {
            revision: self.revision,
            position: self.position,
        }
    }

    pub(in crate::embedded) fn bytes(&self) -> usize {
        self.bytes as usize
    }

    pub(super) fn moved_by(mut self, offset: u64) -> Self {
        self.offset += offset;
        self
    }
}

#[derive(Debug)]
pub(in crate::embedded) struct Segment {
    pub(super) name: String,
    /// The first revision that it covers.
    pub(super) first: u64,
    pub(super) file: Box<dyn DiskFile>,
    /// In the order of their places.
    rows: RwLock<Vec<Row>>,
    /// Of all records, and of those that nobody needs.
    record_bytes: AtomicU64,
    dead_bytes: AtomicU64,
    /// A part of it cannot be read.
    is_bad: AtomicBool,
}

impl Segment {
    pub(super) fn new(name: String, first: u64, file: Box<dyn DiskFile>, rows: Vec<Row>) -> Self {
        let bytes = rows.iter().map(|row| u64::from(row.bytes)).sum();
        Segment {
            name,
            first,
            file,
            rows: RwLock::new(rows),
            record_bytes: AtomicU64::new(bytes),
            dead_bytes: AtomicU64::new(0),
            is_bad: AtomicBool::new(false),
        }
    }

    fn rows<T>(&self, read: impl FnOnce(&[Row]) -> T) -> T {
        read(&self.rows.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that have been written behind all others.
    pub(super) fn add(&self, added: impl Iterator<Item = Row>) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let before = rows.len();
        rows.extend(added);
        let bytes = rows[before..].iter().map(|row| u64::from(row.bytes)).sum();
        self.record_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn row(&self, place: Place) -> Option<Row> {
        self.rows(|rows| {
            let found = rows.binary_search_by_key(&place, Row::place);
            found.ok().map(|index| rows[index])
        })
    }

    /// All of it, for whoever packs it.
    pub(in crate::embedded) fn all_rows(&self) -> Vec<Row> {
        self.rows(<[Row]>::to_vec)
    }

    /// The records after a revision and up to another: not many more than `bytes_max` of them, but all of
    /// each revision.
    pub(in crate::embedded) fn rows_between(
        &self,
        after: u64,
        up_to: u64,
        bytes_max: usize,
    ) -> Vec<Row> {
        self.rows(|rows| {
            let first = rows.partition_point(|row| row.revision <= after);
            let mut bytes = 0;
            let mut last = after;
            let within = |row: &&Row| {
                let enough = bytes >= bytes_max && row.revision != last;
                bytes += row.bytes();
                last = row.revision;
                !enough && row.revision <= up_to
            };
            rows[first..].iter().take_while(within).copied().collect()
        })
    }

    /// The bytes of a record; `None` if it is not here.
    pub(super) fn record(&self, place: Place) -> Result<Option<Vec<u8>>> {
        self.row(place).map(|row| self.record_at(&row)).transpose()
    }

    /// The bytes of a record of this segment. A sector that cannot be read for a moment is read again.
    pub(in crate::embedded) fn record_at(&self, row: &Row) -> Result<Vec<u8>> {
        let mut bytes = vec![0; row.bytes()];
        let mut attempt = 1;
        loop {
            match self.file.read(row.offset, &mut bytes) {
                Ok(()) => return Ok(bytes),
                Err(error) if attempt < READ_ATTEMPTS => {
                    tracing::warn!("a read of {} failed: {error}", self.name);
                    attempt += 1;
                }
                Err(error) => return Err(unreadable(&self.name, &error)),
            }
        }
    }

    pub(in crate::embedded) fn first(&self) -> u64 {
        self.first
    }

    /// How much room the file takes; for people and metrics.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file.size().unwrap_or(0)
    }

    /// Nobody needs this record any more.
    pub(super) fn note_dead(&self, place: Place) {
        if let Some(row) = self.row(place) {
            self.add_dead_bytes(u64::from(row.bytes));
        }
    }

    pub(in crate::embedded) fn add_dead_bytes(&self, bytes: u64) {
        self.dead_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(in crate::embedded) fn dead_bytes(&self) -> u64 {
        self.dead_bytes.load(Ordering::Relaxed)
    }

    /// Leaves it as it is, until the next start: a part of it cannot be read.
    pub(in crate::embedded) fn note_bad(&self) {
        self.is_bad.store(true, Ordering::Relaxed);
    }

    pub(in crate::embedded) fn is_bad(&self) -> bool {
        self.is_bad.load(Ordering::Relaxed)
    }

    pub(in crate::embedded) fn row_count(&self) -> usize {
        self.rows(<[Row]>::len)
    }

    /// What a packed copy of it would hold.
    pub(in crate::embedded) fn live_bytes(&self) -> u64 {
        let all = self.record_bytes.load(Ordering::Relaxed);
        all.saturating_sub(self.dead_bytes())
    }
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::Unavailable {
        reason: format!("{name} cannot be read: {error}"),
    }
}
