//! How entries and history lie in the database file.
//!
//! ```text
//! format   nothing               → number    which layout this is
//! numbers  nothing               → numbers   revision, compacted, and what the log must add up to
//! log      (revision, position)  → record    every change, in order, with its key and value
//! ```
//!
//! Everything is written once, in the log, whose keys only grow: a batch of writers fills few, dense pages
//! at its end, which is what makes one sync for many writers cheap. Where the versions of a key are is kept
//! in memory ([`super::index`]) and read from the log when the store is opened.

use bytes::Bytes;
use redb::TableDefinition;
use rhumb_meta::Revision;

use crate::{Change, Entry, Key};

/// What this code writes and reads. Raise it when the layout changes.
pub(super) const FORMAT: u64 = 1;

/// Under a name of its own, so that every version of rhumb can tell what it has before it.
pub(super) const FORMATS: TableDefinition<'_, (), u64> = TableDefinition::new("format");
pub(super) const NUMBERS: TableDefinition<'_, (), &[u8]> = TableDefinition::new("numbers");
pub(super) const LOG: TableDefinition<'_, (u64, u32), &[u8]> = TableDefinition::new("log");

/// The revision of a store that nobody has written to, as in etcd.
pub(super) const FIRST_REVISION: u64 = 1;

/// What is known about the store as a whole, with a checksum in the file.
///
/// A page of the log that is damaged in the right way reads as if it held fewer records. Their number and
/// the sum of their checksums give that away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) revision: u64,
    /// Where the history begins: older revisions are refused.
    pub(super) compacted: u64,
    pub(super) records: u64,
    pub(super) sum: u64,
}

const NUMBERS_BYTES: usize = 4 * 8;

impl Numbers {
    pub(super) fn encode(self) -> [u8; NUMBERS_BYTES + CRC_BYTES] {
        let mut out = [0; NUMBERS_BYTES + CRC_BYTES];
        let numbers = [self.revision, self.compacted, self.records, self.sum];
        for (place, number) in out.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32fast::hash(&out[..NUMBERS_BYTES]);
        out[NUMBERS_BYTES..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Numbers> {
        let (numbers, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
        let intact =
            numbers.len() == NUMBERS_BYTES && crc32fast::hash(numbers) == u32::from_le_bytes(*crc);
        let mut numbers = numbers
            .chunks_exact(8)
            .filter_map(|chunk| chunk.first_chunk().copied().map(u64::from_le_bytes));
        let numbers = Numbers {
            revision: numbers.next()?,
            compacted: numbers.next()?,
            records: numbers.next()?,
            sum: numbers.next()?,
        };
        intact.then_some(numbers)
    }

    /// Counts a record in, by the checksum of its head.
    pub(super) fn count(&mut self, crc: u32) {
        self.records = self.records.wrapping_add(1);
        self.sum = self.sum.wrapping_add(u64::from(crc));
    }

    /// Counts a record out.
    pub(super) fn discount(&mut self, crc: u32) {
        self.records = self.records.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(u64::from(crc));
    }
}

/// Where a record lies: its revision, and its position among the changes of that revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) revision: u64,
    pub(super) position: u32,
}

impl Place {
    pub(super) fn row(self) -> (u64, u32) {
        (self.revision, self.position)
    }
}

impl From<(u64, u32)> for Place {
    fn from((revision, position): (u64, u32)) -> Self {
        Place { revision, position }
    }
}

/// A record of the log: `head | value | head`, where a head is
/// `crc u32 | value crc u32 | created u64 | kind u8 | key length u16 | key`.
///
/// The head is there twice: a record whose value or one of whose heads is damaged still tells whose it is,
/// so the damage can be named and does not pass for an absent key. A head's checksum covers the record's
/// place as well, so that a record which turns up elsewhere is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) key: &'a str,
    pub(super) body: Body<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body<'a> {
    Put { created: u64, value: &'a [u8] },
    Delete,
}

/// What a head says: enough to find the record again, and to check its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) key: &'a str,
    /// Zero for a deletion.
    pub(super) created: u64,
    value_crc: u32,
    /// The checksum of the head itself.
    pub(super) crc: u32,
}

const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;
const CRC_BYTES: usize = 4;
const FIXED_BYTES: usize = CRC_BYTES + 4 + 8 + 1 + 2;

/// Why a record cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadRecord {
    Head,
    Value,
}

impl BadRecord {
    pub(super) fn reason(self) -> &'static str {
        match self {
            BadRecord::Head => "both copies of its head are damaged",
            BadRecord::Value => "its checksum does not match",
        }
    }
}

impl<'a> Head<'a> {
    fn len(&self) -> usize {
        FIXED_BYTES + self.key.len()
    }

    /// Writes the head and answers its checksum.
    fn encode(&self, place: Place, out: &mut [u8]) -> u32 {
        let kind = if self.created == 0 {
            KIND_DELETE
        } else {
            KIND_PUT
        };
        // A key is at most `KEY_BYTES_MAX` long.
        let key_len = self.key.len() as u16;
        out[4..8].copy_from_slice(&self.value_crc.to_le_bytes());
        out[8..16].copy_from_slice(&self.created.to_le_bytes());
        out[16] = kind;
        out[17..FIXED_BYTES].copy_from_slice(&key_len.to_le_bytes());
        out[FIXED_BYTES..].copy_from_slice(self.key.as_bytes());
        let crc = head_crc(place, &out[CRC_BYTES..]);
        out[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Reads a head that begins with `bytes`.
    fn decode(place: Place, bytes: &'a [u8]) -> Option<Head<'a>> {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED_BYTES>()?;
        let key_len = u16::from_le_bytes([fixed[17], fixed[18]]) as usize;
        let key = std::str::from_utf8(rest.get(..key_len)?).ok()?;
        let crc = u32::from_le_bytes(*fixed.first_chunk()?);
        if crc != head_crc(place, &bytes[CRC_BYTES..FIXED_BYTES + key_len]) {
            return None;
        }
        let head = Head {
            key,
            created: u64::from_le_bytes(*fixed[8..16].first_chunk()?),
            value_crc: u32::from_le_bytes(*fixed[4..8].first_chunk()?),
            crc,
        };
        let kind = if head.created == 0 {
            KIND_DELETE
        } else {
            KIND_PUT
        };
        (fixed[16] == kind).then_some(head)
    }

    /// Reads the head of a record, from its end if its beginning is damaged.
    pub(super) fn of(place: Place, record: &'a [u8]) -> Result<Head<'a>, BadRecord> {
        Self::decode(place, record)
            .or_else(|| Self::at_the_end(place, record))
            .ok_or(BadRecord::Head)
    }

    /// The copy at the end begins where its own length says; lengths are tried, as the length itself is
    /// part of what may be damaged at the beginning.
    fn at_the_end(place: Place, record: &'a [u8]) -> Option<Head<'a>> {
        let longest = record.len().min(FIXED_BYTES + crate::KEY_BYTES_MAX);
        (FIXED_BYTES..=longest).find_map(|len| {
            let bytes = &record[record.len() - len..];
            Self::decode(place, bytes).filter(|head| head.len() == len)
        })
    }
}

impl<'a> Record<'a> {
    fn head(&self) -> Head<'a> {
        let (created, value) = match self.body {
            Body::Put { created, value } => (created, value),
            Body::Delete => (0, &[][..]),
        };
        Head {
            key: self.key,
            created,
            value_crc: crc32fast::hash(value),
            crc: 0,
        }
    }

    pub(super) fn encoded_len(&self) -> usize {
        let value = match self.body {
            Body::Put { value, .. } => value.len(),
            Body::Delete => 0,
        };
        2 * (FIXED_BYTES + self.key.len()) + value
    }

    /// Writes the record into `out`, which has exactly [`Record::encoded_len`] bytes, and answers the
    /// checksum of its head.
    pub(super) fn encode(&self, place: Place, out: &mut [u8]) -> u32 {
        let head = self.head();
        let (first, rest) = out.split_at_mut(head.len());
        let (value, last) = rest.split_at_mut(rest.len() - head.len());
        let crc = head.encode(place, first);
        last.copy_from_slice(first);
        if let Body::Put { value: content, .. } = self.body {
            value.copy_from_slice(content);
        }
        crc
    }

    pub(super) fn decode(place: Place, bytes: &'a [u8]) -> Result<Record<'a>, BadRecord> {
        let head = Head::of(place, bytes)?;
        let value = bytes
            .get(head.len()..bytes.len().saturating_sub(head.len()))
            .ok_or(BadRecord::Value)?;
        if crc32fast::hash(value) != head.value_crc {
            return Err(BadRecord::Value);
        }
        let body = match head.created {
            0 => Body::Delete,
            created => Body::Put { created, value },
        };
        Ok(Record {
            key: head.key,
            body,
        })
    }

    pub(super) fn to_change(self) -> Change {
        let key: Key = self.key.into();
        match self.body {
            Body::Put { created, value } => Change::Put {
                key,
                value: Bytes::copy_from_slice(value),
                created: Revision::new(created),
            },
            Body::Delete => Change::Delete { key },
        }
    }

    /// The entry that this record left behind; `None` after a deletion.
    pub(super) fn to_entry(self, modified: u64) -> Option<Entry> {
        match self.body {
            Body::Put { created, value } => Some(Entry {
                key: self.key.into(),
                value: Bytes::copy_from_slice(value),
                created: Revision::new(created),
                modified: Revision::new(modified),
            }),
            Body::Delete => None,
        }
    }
}

fn head_crc(place: Place, rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place.revision.to_le_bytes());
    hasher.update(&place.position.to_le_bytes());
    hasher.update(rest);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(revision: u64, position: u32) -> Place {
        Place { revision, position }
    }

    fn encode(record: &Record<'_>, place: Place) -> Vec<u8> {
        let mut bytes = vec![0; record.encoded_len()];
        record.encode(place, &mut bytes);
        bytes
    }

    #[test]
    fn numbers_come_back_or_are_noticed() {
        let mut numbers = Numbers {
            revision: 7,
            compacted: 3,
            ..Numbers::default()
        };
        numbers.count(5);
        numbers.count(9);
        numbers.discount(5);
        assert_eq!((numbers.records, numbers.sum), (1, 9));
        let bytes = numbers.encode();
        assert_eq!(Numbers::decode(&bytes), Some(numbers));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Numbers::decode(&bytes), None, "bit {bit}");
        }
        assert_eq!(Numbers::decode(&bytes[1..]), None);
        assert_eq!(Numbers::decode(&[]), None);
    }

    proptest! {
        #[test]
        fn a_record_comes_back_as_it_was_written(
            key in "[^\0]{1,60}", value in prop::collection::vec(any::<u8>(), 0..200),
            created in 1u64.., at in any::<(u64, u32)>(), delete in any::<bool>(),
        ) {
            let body = if delete { Body::Delete } else { Body::Put { created, value: &value } };
            let record = Record { key: &key, body };
            let bytes = encode(&record, at.into());
            prop_assert_eq!(Record::decode(at.into(), &bytes), Ok(record));
        }

        #[test]
        fn a_flipped_bit_never_changes_what_is_read_nor_whose_it_is(
            value in prop::collection::vec(any::<u8>(), 0..50), flip in any::<prop::sample::Index>(),
        ) {
            let record = Record { key: "/registry/pods/a/b", body: Body::Put { created: 7, value: &value } };
            let mut bytes = encode(&record, place(9, 1));
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Head::of(place(9, 1), &bytes).map(|head| head.key), Ok(record.key));
            let read = Record::decode(place(9, 1), &bytes);
            prop_assert!(read == Ok(record) || read == Err(BadRecord::Value), "{:?}", read);
        }

        #[test]
        fn arbitrary_bytes_are_never_taken_for_a_record_nor_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            prop_assert_eq!(Record::decode(place(1, 0), &bytes), Err(BadRecord::Head));
        }
    }

    #[test]
    fn a_record_in_the_wrong_place_is_noticed() {
        let record = Record {
            key: "k",
            body: Body::Delete,
        };
        let bytes = encode(&record, place(5, 0));
        assert_eq!(Record::decode(place(5, 0), &bytes), Ok(record));
        assert_eq!(Record::decode(place(6, 0), &bytes), Err(BadRecord::Head));
    }
}
