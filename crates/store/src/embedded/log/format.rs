//! How a segment of the log lies in its file.
//!
//! ```text
//!    0  header            whose file this is, and which revisions it covers
//!  512  status            whether it is written to, and else where it ends
//! 1024  status            the other one of the two: the later one counts, so a torn one loses nothing
//! 1536  frame, frame, …   what was made durable together: header, table of records, records
//! ```
//!
//! A segment either *grows*, with a frame for each durable write, or was *packed*: written at once from the
//! records of others that are still needed. Only the last segment grows.
//!
//! Checksums of everything but records are made with a number that the segment drew by lot. Nobody who chooses
//! the bytes of a value can make them pass for a frame.

use std::hash::{BuildHasher, RandomState};

use super::record::Place;

/// What this code writes and reads. Raise it when the layout changes. Format 1 was a file of redb.
pub(in crate::embedded) const FORMAT: u32 = 2;

const MAGIC: &[u8; 8] = b"rhumblog";

pub(super) const HEADER_BYTES: usize = 64;
pub(super) const STATUS_OFFSETS: [u64; 2] = [512, 1024];
pub(super) const STATUS_BYTES: usize = 24;
pub(super) const FRAMES_OFFSET: u64 = 1536;

/// Frames begin at multiples of this.
pub(super) const FRAME_ALIGNMENT: u64 = 8;

/// What a segment says of itself. It is written before the file has its name, and never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) salt: u64,
    /// The first revision that it covers.
    pub(super) first: u64,
    pub(super) packed: Option<Packed>,
}

/// What is known of a packed segment when its header is written, which is last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed {
    /// The last revision that it covers.
    pub(super) last: u64,
    pub(super) frames: u64,
    pub(super) compacted: u64,
    /// It holds everything, and is no part of a store.
    pub(super) is_backup: bool,
}

/// Why something is not the header of a segment that can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    Foreign,
    OtherFormat(u32),
    Damaged,
}

impl Header {
    pub(super) fn growing_from(first: u64) -> Self {
        Header {
            salt: draw(),
            first,
            packed: None,
        }
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let packed = self.packed.unwrap_or(Packed {
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
        for (place, number) in out[16..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = header_crc(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, BadHeader> {
        if &bytes[..8] != MAGIC {
            return Err(BadHeader::Foreign);
        }
        let mut input = Numbers(&bytes[8..]);
        let (format, crc) = (input.u32(), input.u32());
        if crc != header_crc(bytes) {
            return Err(BadHeader::Damaged);
        }
        if format != FORMAT {
            return Err(BadHeader::OtherFormat(format));
        }
        let (salt, first) = (input.u64(), input.u64());
        let (last, frames, compacted) = (input.u64(), input.u64(), input.u64());
        let kind = input.u64();
        let packed = Packed {
            last,
            frames,
            compacted,
            is_backup: kind == 2,
        };
        Ok(Header {
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

/// A number that nobody can guess.
pub(super) fn draw() -> u64 {
    RandomState::new().hash_one(FORMAT)
}

/// What is known of the end of a segment that grows or grew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// It is written to, or was when the process ended: what lies behind the last whole frame was not
    /// acknowledged.
    Open,
    /// Nothing is missing if the frames end here.
    Closed { end: u64 },
    /// It ends here, and another segment follows.
    Continued { end: u64 },
}

impl Status {
    pub(super) fn encode(self, number: u64, salt: u64) -> [u8; STATUS_BYTES] {
        let (kind, end) = match self {
            Status::Open => (1u32, 0),
            Status::Closed { end } => (2, end),
            Status::Continued { end } => (3, end),
        };
        let mut out = [0; STATUS_BYTES];
        out[4..8].copy_from_slice(&kind.to_le_bytes());
        out[8..16].copy_from_slice(&number.to_le_bytes());
        out[16..].copy_from_slice(&end.to_le_bytes());
        let crc = salted_crc(salt, &[&out[4..]]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The status, and which one it is.
    pub(super) fn decode(bytes: &[u8; STATUS_BYTES], salt: u64) -> Option<(u64, Status)> {
        let mut input = Numbers(bytes);
        if input.u32() != salted_crc(salt, &[&bytes[4..]]) {
            return None;
        }
        let (kind, number, end) = (input.u32(), input.u64(), input.u64());
        let status = match kind {
            1 => Status::Open,
            2 => Status::Closed { end },
            3 => Status::Continued { end },
            _ => return None,
        };
        Some((number, status))
    }
}

pub(super) const FRAME_BYTES: usize = 56;
pub(super) const TABLE_ROW_BYTES: usize = 16;
const FRAME_MAGIC: [u8; 4] = *b"rhfr";

/// The fixed part of a frame. It has a checksum of its own: a start may have to look for it at many places, and must not
/// believe lengths that are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// Frames of a segment are numbered from zero.
    pub(super) number: u32,
    pub(super) records: u32,
    /// How long all records are together.
    pub(super) bytes: u32,
    /// The checksum of all records. After a crash it tells whether the last frame is whole.
    pub(super) crc: u32,
    /// Where the store was before, and where it is now.
    pub(super) before: u64,
    pub(super) revision: u64,
    /// Where the history begins.
    pub(super) compacted: u64,
    /// The checksum of the table.
    pub(super) table_crc: u32,
}

impl Frame {
    pub(super) fn encode(&self, salt: u64) -> [u8; FRAME_BYTES] {
        let mut out = [0; FRAME_BYTES];
        out[..4].copy_from_slice(&FRAME_MAGIC);
        let small = [self.number, self.records, self.bytes, self.crc];
        for (place, number) in out[8..24].chunks_exact_mut(4).zip(small) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let large = [
            self.before,
            self.revision,
            self.compacted,
            u64::from(self.table_crc),
        ];
        for (place, number) in out[24..].chunks_exact_mut(8).zip(large) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = salted_crc(salt, &[&out[8..]]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; FRAME_BYTES], salt: u64) -> Option<Frame> {
        if bytes[..4] != FRAME_MAGIC {
            return None;
        }
        let mut input = Numbers(&bytes[4..]);
        if input.u32() != salted_crc(salt, &[&bytes[8..]]) {
            return None;
        }
        Some(Frame {
            number: input.u32(),
            records: input.u32(),
            bytes: input.u32(),
            crc: input.u32(),
            before: input.u64(),
            revision: input.u64(),
            compacted: input.u64(),
            table_crc: input.u32(),
        })
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.records as usize * TABLE_ROW_BYTES
    }

    /// How long the frame is, up to where the next one begins.
    pub(super) fn total_bytes(&self) -> u64 {
        let exact = (FRAME_BYTES + self.table_bytes()) as u64 + u64::from(self.bytes);
        exact.next_multiple_of(FRAME_ALIGNMENT)
    }
}

/// What the table of a frame says of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableRow {
    pub(super) place: Place,
    pub(super) bytes: u32,
}

impl TableRow {
    pub(super) fn encode(&self) -> [u8; TABLE_ROW_BYTES] {
        let mut out = [0; TABLE_ROW_BYTES];
        out[..8].copy_from_slice(&self.place.revision.to_le_bytes());
        out[8..12].copy_from_slice(&self.place.position.to_le_bytes());
        out[12..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    pub(super) fn all(table: &[u8]) -> impl Iterator<Item = TableRow> {
        table.chunks_exact(TABLE_ROW_BYTES).map(|row| {
            let mut input = Numbers(row);
            TableRow {
                place: Place {
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

/// Reads numbers one after the other; what is not there reads as zero.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
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
    fn headers_come_back_or_are_noticed() {
        let packed = Packed {
            last: 9,
            frames: 3,
            compacted: 4,
            is_backup: false,
        };
        let backup = Packed {
            is_backup: true,
            ..packed
        };
        for packed in [None, Some(packed), Some(backup)] {
            let header = Header {
                salt: draw(),
                first: 7,
                packed,
            };
            let bytes = header.encode();
            assert_eq!(Header::decode(&bytes), Ok(header));
            for damaged in flipped(bytes) {
                let read = Header::decode(&damaged);
                assert!(
                    matches!(read, Err(BadHeader::Foreign | BadHeader::Damaged)),
                    "{read:?}"
                );
            }
        }
    }

    #[test]
    fn a_header_of_another_format_says_so() {
        let mut bytes = Header::growing_from(1).encode();
        bytes[8] = 3;
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Header::decode(&bytes), Err(BadHeader::OtherFormat(3)));
    }

    #[test]
    fn a_status_comes_back_or_is_noticed() {
        for status in [
            Status::Open,
            Status::Closed { end: 7 },
            Status::Continued { end: 9 },
        ] {
            let bytes = status.encode(3, 5);
            assert_eq!(Status::decode(&bytes, 5), Some((3, status)));
            assert_eq!(Status::decode(&bytes, 6), None);
            for damaged in flipped(bytes) {
                assert_eq!(Status::decode(&damaged, 5), None);
            }
        }
    }

    #[test]
    fn a_frame_comes_back_or_is_noticed() {
        let row = TableRow {
            place: Place {
                revision: 3,
                position: 1,
            },
            bytes: 77,
        };
        let table = row.encode();
        assert_eq!(TableRow::all(&table).collect::<Vec<_>>(), [row]);
        let frame = Frame {
            number: 1,
            records: 1,
            bytes: 77,
            crc: 5,
            before: 2,
            revision: 3,
            compacted: 1,
            table_crc: 6,
        };
        let bytes = frame.encode(8);
        assert_eq!(Frame::decode(&bytes, 8), Some(frame));
        assert_eq!(Frame::decode(&bytes, 9), None);
        assert_eq!(frame.total_bytes(), (56 + 16 + 77u64).next_multiple_of(8));
        assert!(flipped(bytes).all(|damaged| Frame::decode(&damaged, 8).is_none()));
    }
}
