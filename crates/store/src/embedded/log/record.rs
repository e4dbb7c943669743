//! One change of one key, as it lies in the log.

use bytes::Bytes;
use rhumb_meta::Revision;

use crate::{Change, Entry, Key};

/// Where a record lies: its revision, and its position among the changes of that revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::embedded) struct Place {
    pub(in crate::embedded) revision: u64,
    pub(in crate::embedded) position: u32,
}

/// A record of the log: `head | value | head`, where a head is
/// `crc u32 | value crc u32 | created u64 | kind u8 | key length u16 | key`.
///
/// The head is there twice: a record whose value or one of whose heads is damaged still tells whose it is,
/// so the damage can be named and does not pass for an absent key. A head's checksum covers the record's
/// place as well, so that a record which turns up elsewhere is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct Record<'a> {
    pub(in crate::embedded) key: &'a str,
    pub(in crate::embedded) body: Body<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum Body<'a> {
    Put { created: u64, value: &'a [u8] },
    Delete,
}

/// What a head says: enough to find the record again, and to check its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct Head<'a> {
    pub(in crate::embedded) key: &'a str,
    /// Zero for a deletion.
    pub(in crate::embedded) created: u64,
    value_crc: u32,
}

const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;
const CRC_BYTES: usize = 4;
const FIXED_BYTES: usize = CRC_BYTES + 4 + 8 + 1 + 2;

/// Why a record cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum BadRecord {
    Head,
    Value,
}

impl BadRecord {
    pub(in crate::embedded) fn reason(self) -> &'static str {
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

    fn encode(&self, place: Place, out: &mut [u8]) {
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
        };
        let kind = if head.created == 0 {
            KIND_DELETE
        } else {
            KIND_PUT
        };
        (fixed[16] == kind).then_some(head)
    }

    /// Reads the head of a record, from its end if its beginning is damaged.
    pub(in crate::embedded) fn of(place: Place, record: &'a [u8]) -> Result<Head<'a>, BadRecord> {
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
        }
    }

    pub(in crate::embedded) fn encoded_len(&self) -> usize {
        let value = match self.body {
            Body::Put { value, .. } => value.len(),
            Body::Delete => 0,
        };
        2 * (FIXED_BYTES + self.key.len()) + value
    }

    /// Writes the record into `out`, which has exactly [`Record::encoded_len`] bytes.
    pub(in crate::embedded) fn encode(&self, place: Place, out: &mut [u8]) {
        let head = self.head();
        let (first, rest) = out.split_at_mut(head.len());
        let (value, last) = rest.split_at_mut(rest.len() - head.len());
        head.encode(place, first);
        last.copy_from_slice(first);
        if let Body::Put { value: content, .. } = self.body {
            value.copy_from_slice(content);
        }
    }

    pub(in crate::embedded) fn decode(
        place: Place,
        bytes: &'a [u8],
    ) -> Result<Record<'a>, BadRecord> {
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

    pub(in crate::embedded) fn to_change(self) -> Change {
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
    pub(in crate::embedded) fn to_entry(self, modified: u64) -> Option<Entry> {
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

/// How long the record of a key's deletion is.
pub(in crate::embedded) fn deletion_bytes(key: &str) -> u64 {
    let body = Body::Delete;
    Record { key, body }.encoded_len() as u64
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

    proptest! {
        #[test]
        fn a_record_comes_back_as_it_was_written(
            key in "[^\0]{1,60}", value in prop::collection::vec(any::<u8>(), 0..200),
            created in 1u64.., at in any::<(u64, u32)>(), delete in any::<bool>(),
        ) {
            let body = if delete { Body::Delete } else { Body::Put { created, value: &value } };
            let record = Record { key: &key, body };
            let at = place(at.0, at.1);
            let bytes = encode(&record, at);
            prop_assert_eq!(Record::decode(at, &bytes), Ok(record));
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
