//! Encoding of frames: the records of one durable write.

use super::format::{FRAME_HEADER_BYTES, FrameHeader, FrameTableRow, salted_crc};
use super::record::{LogRecord, RecordId};
use super::segment::RecordLocation;

/// The index of a frame in its segment, and the revisions before and after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FramePosition {
    pub(super) number: u32,
    pub(super) previous_revision: u64,
    pub(super) revision: u64,
    pub(super) compacted: u64,
}

/// Collects encoded records and builds the frame from them.
#[derive(Debug, Default)]
pub(in crate::embedded) struct FrameBuilder {
    table: Vec<u8>,
    records: Vec<u8>,
    /// Offsets are relative to the first record.
    rows: Vec<RecordLocation>,
}

impl FrameBuilder {
    pub(in crate::embedded) fn add(&mut self, record_id: RecordId, record: &LogRecord<'_>) {
        let (offset, bytes) = (self.records.len(), record.encoded_len());
        self.records.resize(offset + bytes, 0);
        record.encode(record_id, &mut self.records[offset..]);
        self.add_row(record_id, offset, bytes);
    }

    /// Adds a record that was already encoded in another frame.
    pub(super) fn add_encoded(&mut self, record_id: RecordId, record: &[u8]) {
        let offset = self.records.len();
        self.records.extend_from_slice(record);
        self.add_row(record_id, offset, record.len());
    }

    fn add_row(&mut self, record_id: RecordId, offset: usize, bytes: usize) {
        // Cannot overflow: a record is at most a value of `VALUE_BYTES_MAX` and two headers.
        let bytes = bytes as u32;
        self.table
            .extend_from_slice(&FrameTableRow { record_id, bytes }.encode());
        self.rows
            .push(RecordLocation::new(record_id, offset as u64, bytes));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn record_bytes(&self) -> usize {
        self.records.len()
    }

    /// Clears the builder for the next frame, and shrinks large buffers.
    pub(in crate::embedded) fn clear(&mut self) {
        const KEPT_BYTES: usize = 1 << 20;
        self.table.clear();
        self.records.clear();
        self.rows.clear();
        self.table.shrink_to(KEPT_BYTES);
        self.records.shrink_to(KEPT_BYTES);
        self.rows
            .shrink_to(KEPT_BYTES / size_of::<RecordLocation>());
    }

    /// Writes the whole frame into `out`.
    pub(super) fn build(&self, salt: u64, position: FramePosition, out: &mut Vec<u8>) {
        let frame = FrameHeader {
            number: position.number,
            records: self.rows.len() as u32,
            record_bytes: self.records.len() as u32,
            records_crc: salted_crc(salt, &[&self.records]),
            previous_revision: position.previous_revision,
            revision: position.revision,
            compacted: position.compacted,
            table_crc: salted_crc(salt, &[&self.table]),
        };
        let total = frame.total_bytes() as usize;
        out.clear();
        out.reserve(total);
        out.extend_from_slice(&frame.encode(salt));
        out.extend_from_slice(&self.table);
        out.extend_from_slice(&self.records);
        out.resize(total, 0);
    }

    /// The locations of the records if the frame is written at this offset.
    pub(super) fn locations_at(&self, offset: u64) -> impl Iterator<Item = RecordLocation> {
        let records = offset + (FRAME_HEADER_BYTES + self.table.len()) as u64;
        self.rows.iter().map(move |row| row.shifted_by(records))
    }
}
