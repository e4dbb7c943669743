//! A frame in the making.

use super::format::{FRAME_BYTES, Frame, TableRow, salted_crc};
use super::record::{Place, Record};
use super::segment::Row;

/// Where the store is before and after a frame, and which frame of its segment it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) number: u32,
    pub(super) before: u64,
    pub(super) revision: u64,
    pub(super) compacted: u64,
}

/// Records that will be written together.
#[derive(Debug, Default)]
pub(in crate::embedded) struct FrameBuilder {
    table: Vec<u8>,
    records: Vec<u8>,
    /// With offsets that count from the first record.
    rows: Vec<Row>,
}

impl FrameBuilder {
    pub(in crate::embedded) fn add(&mut self, place: Place, record: &Record<'_>) {
        let (offset, bytes) = (self.records.len(), record.encoded_len());
        self.records.resize(offset + bytes, 0);
        record.encode(place, &mut self.records[offset..]);
        self.note(place, offset, bytes);
    }

    /// Adds a record as it was read from another frame.
    pub(super) fn add_encoded(&mut self, place: Place, record: &[u8]) {
        let offset = self.records.len();
        self.records.extend_from_slice(record);
        self.note(place, offset, record.len());
    }

    fn note(&mut self, place: Place, offset: usize, bytes: usize) {
        // A record is at most a value of `VALUE_BYTES_MAX` and two heads.
        let bytes = bytes as u32;
        self.table
            .extend_from_slice(&TableRow { place, bytes }.encode());
        self.rows.push(Row::new(place, offset as u64, bytes));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn record_bytes(&self) -> usize {
        self.records.len()
    }

    /// Makes room for the next frame, and gives large buffers back.
    pub(in crate::embedded) fn clear(&mut self) {
        const KEPT_BYTES: usize = 1 << 20;
        self.table.clear();
        self.records.clear();
        self.rows.clear();
        self.table.shrink_to(KEPT_BYTES);
        self.records.shrink_to(KEPT_BYTES);
        self.rows.shrink_to(KEPT_BYTES / size_of::<Row>());
    }

    /// Writes the whole frame into `out`.
    pub(super) fn build(&self, salt: u64, position: Position, out: &mut Vec<u8>) {
        let frame = Frame {
            number: position.number,
            records: self.rows.len() as u32,
            bytes: self.records.len() as u32,
            crc: salted_crc(salt, &[&self.records]),
            before: position.before,
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

    /// Where the records are, once the frame lies at this offset.
    pub(super) fn rows_at(&self, offset: u64) -> impl Iterator<Item = Row> {
        let records = offset + (FRAME_BYTES + self.table.len()) as u64;
        self.rows.iter().map(move |row| row.moved_by(records))
    }
}
