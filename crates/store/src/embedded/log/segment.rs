//! A segment file of the log, opened for reading, with the locations of its records.

use parking_lot::RwLock;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::record::RecordId;
use crate::embedded::disk::DiskFile;
use crate::{Error, Result};

/// How often a failing read is attempted.
const READ_ATTEMPTS: usize = 3;

/// The location of a record in its segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct RecordLocation {
    revision: u64,
    offset: u64,
    position: u32,
    bytes: u32,
}

impl RecordLocation {
    pub(super) fn new(record_id: RecordId, offset: u64, bytes: u32) -> Self {
        RecordLocation {
            revision: record_id.revision,
            position: record_id.position,
            offset,
            bytes,
        }
    }

    pub(in crate::embedded) fn record_id(&self) -> RecordId {
        RecordId {
            revision: self.revision,
            position: self.position,
        }
    }

    pub(in crate::embedded) fn bytes(&self) -> usize {
        self.bytes as usize
    }

    pub(super) fn shifted_by(mut self, offset: u64) -> Self {
        self.offset += offset;
        self
    }
}

/// An open segment file.
#[derive(Debug)]
pub(in crate::embedded) struct LogSegment {
    pub(super) name: String,
    /// The first revision that the segment covers.
    pub(super) first_revision: u64,
    pub(super) file: Box<dyn DiskFile>,
    /// Ordered by record id.
    records: RwLock<Vec<RecordLocation>>,
    /// The size of all records.
    record_bytes: AtomicU64,
    /// The size of the records that are no longer needed.
    dead_bytes: AtomicU64,
    /// A part of the segment cannot be read.
    is_unreadable: AtomicBool,
}

impl LogSegment {
    pub(super) fn new(
        name: String,
        first_revision: u64,
        file: Box<dyn DiskFile>,
        rows: Vec<RecordLocation>,
    ) -> Self {
        let bytes = rows.iter().map(|row| u64::from(row.bytes)).sum();
        LogSegment {
            name,
            first_revision,
            file,
            records: RwLock::new(rows),
            record_bytes: AtomicU64::new(bytes),
            dead_bytes: AtomicU64::new(0),
            is_unreadable: AtomicBool::new(false),
        }
    }

    fn with_records<T>(&self, read: impl FnOnce(&[RecordLocation]) -> T) -> T {
        read(&self.records.read())
    }

    /// Adds records that were appended to the file.
    pub(super) fn append_records(&self, added: impl Iterator<Item = RecordLocation>) {
        let mut rows = self.records.write();
        let before = rows.len();
        rows.extend(added);
        let bytes = rows[before..].iter().map(|row| u64::from(row.bytes)).sum();
        self.record_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn find_record(&self, record_id: RecordId) -> Option<RecordLocation> {
        self.with_records(|rows| {
            let found = rows.binary_search_by_key(&record_id, RecordLocation::record_id);
            found.ok().map(|index| rows[index])
        })
    }

    /// The locations of all records.
    pub(in crate::embedded) fn all_records(&self) -> Vec<RecordLocation> {
        self.with_records(<[RecordLocation]>::to_vec)
    }

    /// The records after revision `after` up to `up_to`, limited to about `bytes_max` bytes but always complete
    /// revisions.
    pub(in crate::embedded) fn records_between(
        &self,
        after: u64,
        up_to: u64,
        bytes_max: usize,
    ) -> Vec<RecordLocation> {
        self.with_records(|rows| {
            let first = rows.partition_point(|row| row.revision <= after);
            let mut bytes = 0;
            let mut last = after;
            let within = |row: &&RecordLocation| {
                let enough = bytes >= bytes_max && row.revision != last;
                bytes += row.bytes();
                last = row.revision;
                !enough && row.revision <= up_to
            };
            rows[first..].iter().take_while(within).copied().collect()
        })
    }

    /// Reads the bytes of a record; `None` if the segment does not contain it.
    pub(super) fn read_record(&self, record_id: RecordId) -> Result<Option<Vec<u8>>> {
        self.find_record(record_id)
            .map(|row| self.read_record_at(&row))
            .transpose()
    }

    /// Reads the bytes of a record, retrying transient read errors.
    pub(in crate::embedded) fn read_record_at(&self, row: &RecordLocation) -> Result<Vec<u8>> {
        let mut bytes = vec![0; row.bytes()];
        let mut attempt = 1;
        loop {
            match self.file.read(row.offset, &mut bytes) {
                Ok(()) => return Ok(bytes),
                Err(error) if attempt < READ_ATTEMPTS => {
                    tracing::warn!(%error, file = self.name, attempt, "failed to read a log record; retrying");
                    attempt += 1;
                }
                Err(error) => return Err(read_error(&self.name, &error)),
            }
        }
    }

    pub(in crate::embedded) fn first_revision(&self) -> u64 {
        self.first_revision
    }

    /// The size of the file, for metrics.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file.size().unwrap_or(0)
    }

    /// Counts a record as dead.
    pub(super) fn mark_dead(&self, record_id: RecordId) {
        if let Some(row) = self.find_record(record_id) {
            self.add_dead_bytes(u64::from(row.bytes));
        }
    }

    pub(in crate::embedded) fn add_dead_bytes(&self, bytes: u64) {
        self.dead_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(in crate::embedded) fn dead_bytes(&self) -> u64 {
        self.dead_bytes.load(Ordering::Relaxed)
    }

    /// Excludes the segment from packing until the next start, because a part of it cannot be read.
    pub(in crate::embedded) fn mark_unreadable(&self) {
        self.is_unreadable.store(true, Ordering::Relaxed);
    }

    pub(in crate::embedded) fn is_unreadable(&self) -> bool {
        self.is_unreadable.load(Ordering::Relaxed)
    }

    pub(in crate::embedded) fn record_count(&self) -> usize {
        self.with_records(<[RecordLocation]>::len)
    }

    /// The size of the records that a packed copy would contain.
    pub(in crate::embedded) fn live_bytes(&self) -> u64 {
        let all = self.record_bytes.load(Ordering::Relaxed);
        all.saturating_sub(self.dead_bytes())
    }
}

fn read_error(name: &str, error: &io::Error) -> Error {
    Error::Unavailable {
        reason: format!("failed to read log segment {name}: {error}"),
    }
}
