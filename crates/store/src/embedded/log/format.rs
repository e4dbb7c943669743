//! File format of a log segment.
//!
//! ```text
//!    0  header            magic, format, and the revisions that the segment covers
//!  512  status            whether the segment is open, and otherwise where it ends
//! 1024  status            second copy: the later one counts, so a torn write loses nothing
//! 1536  frame, frame, …   one durable write each: frame header, table of records, records
//! ```
//!
//! A segment is either *active* (later *sealed*), with one frame per durable write, or *packed*: written at once from
//! the records of other segments that are still needed. Only the last segment is active.
//!
//! All checksums except those of records include a random salt of the segment, so that no value chosen by a client can
//! be mistaken for a frame.

use std::hash::{BuildHasher, RandomState};

use super::record::RecordId;

/// The format version that this code reads and writes. Increment it when the layout changes. Format 1 was a redb file.
pub(in crate::embedded) const FORMAT: u32 = 2;

const MAGIC: &[u8; 8] = b"rhumblog";

pub(super) const HEADER_BYTES: usize = 64;
pub(super) const STATUS_OFFSETS: [u64; 2] = [512, 1024];
pub(super) const STATUS_BYTES: usize = 24;
pub(super) const FRAMES_OFFSET: u64 = 1536;

/// Frames start at multiples of this.
pub(super) const FRAME_ALIGNMENT: u64 = 8;

/// The header of a segment file. Written before the file gets its name, and never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) salt: u64,
    /// The first revision that the segment covers.
    pub(super) first: u64,
    pub(super) packed: Option<PackedSegmentInfo>,
}

/// The additional header fields of a packed segment; known because its header is written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackedSegmentInfo {
    /// The last revision that the segment covers.
    pub(super) last: u64,
    pub(super) frames: u64,
    pub(super) compacted: u64,
    /// The file is a backup: it contains a whole store and is not part of a log.
    pub(super) is_backup: bool,
}

/// Why a segment header cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SegmentHeaderError {
    WrongMagic,
    UnsupportedFormat(u32),
    Damaged,
}

impl SegmentHeader {
    pub(super) fn new_active(first: u64) -> Self {
        SegmentHeader {
            salt: random_salt(),
            first,
            packed: None,
        }
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let packed = self.packed.unwrap_or(PackedSegmentInfo {
            last: 0,
            frames: 0,
            compacted: 0,
            is_backup: false,
        });
        let numbers = [
            self.salt,
            self.first,
            packed.last,
            packed.frames,
            packed.compacted,
            u64::from(self.packed.is_some()) + u64::from(packed.is_backup),
        ];
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        for (chunk, number) in out[16..].chunks_exact_mut(8).zip(numbers) {
            chunk.copy_from_slice(&number.to_le_bytes());
        }
        let crc = header_crc(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<SegmentHeader, SegmentHeaderError> {
        if &bytes[..8] != MAGIC {
            return Err(SegmentHeaderError::WrongMagic);
        }
        let mut input = LittleEndianReader(&bytes[8..]);
        let (format, crc) = (input.u32(), input.u32());
        if crc != header_crc(bytes) {
            return Err(SegmentHeaderError::Damaged);
        }
        if format != FORMAT {
            return Err(SegmentHeaderError::UnsupportedFormat(format));
        }
        let (salt, first) = (input.u64(), input.u64());
        let (last, frames, compacted) = (input.u64(), input.u64(), input.u64());
        let kind = input.u64();
        let packed = PackedSegmentInfo {
            last,
            frames,
            compacted,
            is_backup: kind == 2,
        };
        Ok(SegmentHeader {
            salt,
            first,
            packed: (kind != 0).then_some(packed),
        })
    }
}

fn header_crc(header: &[u8; HEADER_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..12]);
    hasher.update(&header[16..]);
    hasher.finalize()
}

/// An unpredictable salt for checksums.
pub(super) fn random_salt() -> u64 {
    RandomState::new().hash_one(FORMAT)
}

/// The recorded end of an active or sealed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentStatus {
    /// The segment is being written, or was when the process ended: anything after the last complete frame was not
    /// acknowledged.
    Open,
    /// The store was closed cleanly; the frames end here.
    Closed { end: u64 },
    /// The frames end here, and another segment follows.
    Continued { end: u64 },
}

impl SegmentStatus {
    pub(super) fn encode(self, number: u64, salt: u64) -> [u8; STATUS_BYTES] {
        let (kind, end) = match self {
            SegmentStatus::Open => (1u32, 0),
            SegmentStatus::Closed { end } => (2, end),
            SegmentStatus::Continued { end } => (3, end),
        };
        let mut out = [0; STATUS_BYTES];
        out[4..8].copy_from_slice(&kind.to_le_bytes());
        out[8..16].copy_from_slice(&number.to_le_bytes());
        out[16..].copy_from_slice(&end.to_le_bytes());
        let crc = salted_crc(salt, &[&out[4..]]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Returns the sequence number of the status, and the status.
    pub(super) fn decode(bytes: &[u8; STATUS_BYTES], salt: u64) -> Option<(u64, SegmentStatus)> {
        let mut input = LittleEndianReader(bytes);
        if input.u32() != salted_crc(salt, &[&bytes[4..]]) {
            return None;
        }
        let (kind, number, end) = (input.u32(), input.u64(), input.u64());
        let status = match kind {
            1 => SegmentStatus::Open,
            2 => SegmentStatus::Closed { end },
            3 => SegmentStatus::Continued { end },
            _ => return None,
        };
        Some((number, status))
    }
}

pub(super) const FRAME_HEADER_BYTES: usize = 56;
pub(super) const TABLE_ROW_BYTES: usize = 16;
const FRAME_MAGIC: [u8; 4] = *b"rhfr";

/// The fixed-size header of a frame. It has its own checksum, because recovery searches for frame headers at many
/// offsets and must not trust lengths that are not real.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// The index of the frame in its segment, from zero.
    pub(super) number: u32,
    pub(super) records: u32,
    /// The total length of all records.
    pub(super) record_bytes: u32,
    /// The checksum of all records. After a crash it shows whether the last frame is complete.
    pub(super) records_crc: u32,
    /// The revision of the store before and after this frame.
    pub(super) previous_revision: u64,
    pub(super) revision: u64,
    /// The compaction revision.
    pub(super) compacted: u64,
    /// The checksum of the table.
    pub(super) table_crc: u32,
}

impl FrameHeader {
    pub(super) fn encode(&self, salt: u64) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = [0; FRAME_HEADER_BYTES];
        out[..4].copy_from_slice(&FRAME_MAGIC);
        let small = [
            self.number,
            self.records,
            self.record_bytes,
            self.records_crc,
        ];
        for (chunk, number) in out[8..24].chunks_exact_mut(4).zip(small) {
            chunk.copy_from_slice(&number.to_le_bytes());
        }
        let large = [
            self.previous_revision,
            self.revision,
            self.compacted,
            u64::from(self.table_crc),
        ];
        for (chunk, number) in out[24..].chunks_exact_mut(8).zip(large) {
            chunk.copy_from_slice(&number.to_le_bytes());
        }
        let crc = salted_crc(salt, &[&out[8..]]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; FRAME_HEADER_BYTES], salt: u64) -> Option<FrameHeader> {
        if bytes[..4] != FRAME_MAGIC {
            return None;
        }
        let mut input = LittleEndianReader(&bytes[4..]);
        if input.u32() != salted_crc(salt, &[&bytes[8..]]) {
            return None;
        }
        Some(FrameHeader {
            number: input.u32(),
            records: input.u32(),
            record_bytes: input.u32(),
            records_crc: input.u32(),
            previous_revision: input.u64(),
            revision: input.u64(),
            compacted: input.u64(),
            table_crc: input.u32(),
        })
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.records as usize * TABLE_ROW_BYTES
    }

    /// The length of the frame including its padding.
    pub(super) fn total_bytes(&self) -> u64 {
        let exact = (FRAME_HEADER_BYTES + self.table_bytes()) as u64 + u64::from(self.record_bytes);
        exact.next_multiple_of(FRAME_ALIGNMENT)
    }
}

/// One row of the record table of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameTableRow {
    pub(super) record_id: RecordId,
    pub(super) bytes: u32,
}

impl FrameTableRow {
    pub(super) fn encode(&self) -> [u8; TABLE_ROW_BYTES] {
        let mut out = [0; TABLE_ROW_BYTES];
        out[..8].copy_from_slice(&self.record_id.revision.to_le_bytes());
        out[8..12].copy_from_slice(&self.record_id.position.to_le_bytes());
        out[12..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    pub(super) fn decode_all(table: &[u8]) -> impl Iterator<Item = FrameTableRow> {
        table.chunks_exact(TABLE_ROW_BYTES).map(|row| {
            let mut input = LittleEndianReader(row);
            FrameTableRow {
                record_id: RecordId {
                    revision: input.u64(),
                    position: input.u32(),
                },
                bytes: input.u32(),
            }
        })
    }
}

pub(super) fn salted_crc(salt: u64, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// Reads consecutive little-endian integers; bytes beyond the end read as zero.
struct LittleEndianReader<'a>(&'a [u8]);

impl LittleEndianReader<'_> {
    fn u32(&mut self) -> u32 {
        let number = self.0.first_chunk().copied().map_or(0, u32::from_le_bytes);
        self.0 = self.0.get(4..).unwrap_or_default();
        number
    }

    fn u64(&mut self) -> u64 {
        let number = self.0.first_chunk().copied().map_or(0, u64::from_le_bytes);
        self.0 = self.0.get(8..).unwrap_or_default();
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flipped<const N: usize>(bytes: [u8; N]) -> impl Iterator<Item = [u8; N]> {
        (0..N * 8).map(move |bit| {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        })
    }

    #[test]
    fn headers_round_trip_and_damage_is_detected() {
        let packed = PackedSegmentInfo {
            last: 9,
            frames: 3,
            compacted: 4,
            is_backup: false,
        };
        let backup = PackedSegmentInfo {
            is_backup: true,
            ..packed
        };
        for packed in [None, Some(packed), Some(backup)] {
            let header = SegmentHeader {
                salt: random_salt(),
                first: 7,
                packed,
            };
            let bytes = header.encode();
            assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
            for damaged in flipped(bytes) {
                let read = SegmentHeader::decode(&damaged);
                assert!(
                    matches!(
                        read,
                        Err(SegmentHeaderError::WrongMagic | SegmentHeaderError::Damaged)
                    ),
                    "{read:?}"
                );
            }
        }
    }

    #[test]
    fn a_header_of_another_format_is_reported() {
        let mut bytes = SegmentHeader::new_active(1).encode();
        bytes[8] = 3;
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(
            SegmentHeader::decode(&bytes),
            Err(SegmentHeaderError::UnsupportedFormat(3))
        );
    }

    #[test]
    fn a_status_round_trips_and_damage_is_detected() {
        for status in [
            SegmentStatus::Open,
            SegmentStatus::Closed { end: 7 },
            SegmentStatus::Continued { end: 9 },
        ] {
            let bytes = status.encode(3, 5);
            assert_eq!(SegmentStatus::decode(&bytes, 5), Some((3, status)));
            assert_eq!(SegmentStatus::decode(&bytes, 6), None);
            for damaged in flipped(bytes) {
                assert_eq!(SegmentStatus::decode(&damaged, 5), None);
            }
        }
    }

    #[test]
    fn a_frame_round_trips_and_damage_is_detected() {
        let row = FrameTableRow {
            record_id: RecordId {
                revision: 3,
                position: 1,
            },
            bytes: 77,
        };
        let table = row.encode();
        assert_eq!(FrameTableRow::decode_all(&table).collect::<Vec<_>>(), [row]);
        let frame = FrameHeader {
            number: 1,
            records: 1,
            record_bytes: 77,
            records_crc: 5,
            previous_revision: 2,
            revision: 3,
            compacted: 1,
            table_crc: 6,
        };
        let bytes = frame.encode(8);
        assert_eq!(FrameHeader::decode(&bytes, 8), Some(frame));
        assert_eq!(FrameHeader::decode(&bytes, 9), None);
        assert_eq!(frame.total_bytes(), (56 + 16 + 77u64).next_multiple_of(8));
        assert!(flipped(bytes).all(|damaged| FrameHeader::decode(&damaged, 8).is_none()));
    }
}
