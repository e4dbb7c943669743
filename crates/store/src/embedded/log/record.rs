//! Encoding of log records: one change of one key each.

use bytes::Bytes;
use rhumb_meta::Revision;

use crate::{Key, KeyChange, StoreEntry};

/// Identifies a record: its revision, and its position among the changes of that revision (etcd: main and sub
/// revision).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::embedded) struct RecordId {
    pub(in crate::embedded) revision: u64,
    pub(in crate::embedded) position: u32,
}

/// A record of the log: `header | value | header`, where a header is
/// `crc u32 | value crc u32 | created u64 | kind u8 | key length u16 | key`.
///
/// The header is stored twice: if the value or one header is damaged, the key is still known, so the damage is reported
/// for that key instead of making it look absent. The checksum of the header covers the record id as well, so that a
/// misplaced record is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct LogRecord<'a> {
    pub(in crate::embedded) key: &'a str,
    pub(in crate::embedded) body: LogRecordBody<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum LogRecordBody<'a> {
    Put { created: u64, value: &'a [u8] },
    Delete,
}

/// The header of a record: key, create revision, and the checksum of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) struct RecordHeader<'a> {
    pub(in crate::embedded) key: &'a str,
    /// Zero for a deletion.
    pub(in crate::embedded) created: u64,
    value_crc: u32,
}

const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;
const CRC_BYTES: usize = 4;
const FIXED_HEADER_BYTES: usize = CRC_BYTES + 4 + 8 + 1 + 2;

/// Which part of a record is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::embedded) enum RecordDamage {
    Header,
    Value,
}

impl RecordDamage {
    pub(in crate::embedded) fn reason(self) -> &'static str {
        match self {
            RecordDamage::Header => "both copies of the record header are damaged",
            RecordDamage::Value => "checksum mismatch of the value",
        }
    }
}

impl<'a> RecordHeader<'a> {
    fn len(&self) -> usize {
        FIXED_HEADER_BYTES + self.key.len()
    }

    fn encode(&self, record_id: RecordId, out: &mut [u8]) {
        let kind = if self.created == 0 {
            KIND_DELETE
        } else {
            KIND_PUT
        };
        // Cannot overflow: a key is at most `KEY_BYTES_MAX` long.
        let key_len = self.key.len() as u16;
        out[4..8].copy_from_slice(&self.value_crc.to_le_bytes());
        out[8..16].copy_from_slice(&self.created.to_le_bytes());
        out[16] = kind;
        out[17..FIXED_HEADER_BYTES].copy_from_slice(&key_len.to_le_bytes());
        out[FIXED_HEADER_BYTES..].copy_from_slice(self.key.as_bytes());
        let crc = record_header_crc(record_id, &out[CRC_BYTES..]);
        out[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes a header at the start of `bytes`.
    fn decode(record_id: RecordId, bytes: &'a [u8]) -> Option<RecordHeader<'a>> {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED_HEADER_BYTES>()?;
        let key_len = u16::from_le_bytes([fixed[17], fixed[18]]) as usize;
        let key = std::str::from_utf8(rest.get(..key_len)?).ok()?;
        let crc = u32::from_le_bytes(*fixed.first_chunk()?);
        if crc != record_header_crc(record_id, &bytes[CRC_BYTES..FIXED_HEADER_BYTES + key_len]) {
            return None;
        }
        let head = RecordHeader {
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

    /// Decodes the header of a record, from the trailing copy if the leading one is damaged.
    pub(in crate::embedded) fn decode_either_copy(
        record_id: RecordId,
        record: &'a [u8],
    ) -> Result<RecordHeader<'a>, RecordDamage> {
        Self::decode(record_id, record)
            .or_else(|| Self::decode_trailing_copy(record_id, record))
            .ok_or(RecordDamage::Header)
    }

    /// Decodes the trailing copy. Its length is unknown if the leading copy is damaged, so all lengths are tried.
    fn decode_trailing_copy(record_id: RecordId, record: &'a [u8]) -> Option<RecordHeader<'a>> {
        let longest = record.len().min(FIXED_HEADER_BYTES + crate::KEY_BYTES_MAX);
        (FIXED_HEADER_BYTES..=longest).find_map(|len| {
            let bytes = &record[record.len() - len..];
            Self::decode(record_id, bytes).filter(|head| head.len() == len)
        })
    }
}

impl<'a> LogRecord<'a> {
    fn header(&self) -> RecordHeader<'a> {
        let (created, value) = match self.body {
            LogRecordBody::Put { created, value } => (created, value),
            LogRecordBody::Delete => (0, &[][..]),
        };
        RecordHeader {
            key: self.key,
            created,
            value_crc: crc32fast::hash(value),
        }
    }

    pub(in crate::embedded) fn encoded_len(&self) -> usize {
        let value = match self.body {
            LogRecordBody::Put { value, .. } => value.len(),
            LogRecordBody::Delete => 0,
        };
        2 * (FIXED_HEADER_BYTES + self.key.len()) + value
    }

    /// Writes the record into `out`, which has exactly [`Record::encoded_len`] bytes.
    pub(in crate::embedded) fn encode(&self, record_id: RecordId, out: &mut [u8]) {
        let head = self.header();
        let (first, rest) = out.split_at_mut(head.len());
        let (value, last) = rest.split_at_mut(rest.len() - head.len());
        head.encode(record_id, first);
        last.copy_from_slice(first);
        if let LogRecordBody::Put { value: content, .. } = self.body {
            value.copy_from_slice(content);
        }
    }

    pub(in crate::embedded) fn decode(
        record_id: RecordId,
        bytes: &'a [u8],
    ) -> Result<LogRecord<'a>, RecordDamage> {
        let head = RecordHeader::decode_either_copy(record_id, bytes)?;
        let value = bytes
            .get(head.len()..bytes.len().saturating_sub(head.len()))
            .ok_or(RecordDamage::Value)?;
        if crc32fast::hash(value) != head.value_crc {
            return Err(RecordDamage::Value);
        }
        let body = match head.created {
            0 => LogRecordBody::Delete,
            created => LogRecordBody::Put { created, value },
        };
        Ok(LogRecord {
            key: head.key,
            body,
        })
    }

    pub(in crate::embedded) fn to_change(self) -> KeyChange {
        let key: Key = self.key.into();
        match self.body {
            LogRecordBody::Put { created, value } => KeyChange::Put {
                key,
                value: Bytes::copy_from_slice(value),
                created: Revision::new(created),
            },
            LogRecordBody::Delete => KeyChange::Delete { key },
        }
    }

    /// The entry that this record wrote; `None` for a deletion.
    pub(in crate::embedded) fn to_entry(self, modified: u64) -> Option<StoreEntry> {
        match self.body {
            LogRecordBody::Put { created, value } => Some(StoreEntry {
                key: self.key.into(),
                value: Bytes::copy_from_slice(value),
                created: Revision::new(created),
                modified: Revision::new(modified),
            }),
            LogRecordBody::Delete => None,
        }
    }
}

/// The encoded size of a deletion record.
pub(in crate::embedded) fn deletion_bytes(key: &str) -> u64 {
    let body = LogRecordBody::Delete;
    LogRecord { key, body }.encoded_len() as u64
}

fn record_header_crc(record_id: RecordId, rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record_id.revision.to_le_bytes());
    hasher.update(&record_id.position.to_le_bytes());
    hasher.update(rest);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record_id(revision: u64, position: u32) -> RecordId {
        RecordId { revision, position }
    }

    fn encode(record: &LogRecord<'_>, record_id: RecordId) -> Vec<u8> {
        let mut bytes = vec![0; record.encoded_len()];
        record.encode(record_id, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn a_record_round_trips(
            key in "[^\0]{1,60}", value in prop::collection::vec(any::<u8>(), 0..200),
            created in 1u64.., at in any::<(u64, u32)>(), delete in any::<bool>(),
        ) {
            let body = if delete { LogRecordBody::Delete } else { LogRecordBody::Put { created, value: &value } };
            let record = LogRecord { key: &key, body };
            let at = record_id(at.0, at.1);
            let bytes = encode(&record, at);
            prop_assert_eq!(LogRecord::decode(at, &bytes), Ok(record));
        }

        #[test]
        fn a_flipped_bit_never_changes_key_or_value(
            value in prop::collection::vec(any::<u8>(), 0..50), flip in any::<prop::sample::Index>(),
        ) {
            let record = LogRecord { key: "/registry/pods/a/b", body: LogRecordBody::Put { created: 7, value: &value } };
            let mut bytes = encode(&record, record_id(9, 1));
            let bit = flip.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(RecordHeader::decode_either_copy(record_id(9, 1), &bytes).map(|head| head.key), Ok(record.key));
            let read = LogRecord::decode(record_id(9, 1), &bytes);
            prop_assert!(read == Ok(record) || read == Err(RecordDamage::Value), "{:?}", read);
        }

        #[test]
        fn arbitrary_bytes_are_not_decoded_as_a_record(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            prop_assert_eq!(LogRecord::decode(record_id(1, 0), &bytes), Err(RecordDamage::Header));
        }
    }

    #[test]
    fn a_misplaced_record_is_detected() {
        let record = LogRecord {
            key: "k",
            body: LogRecordBody::Delete,
        };
        let bytes = encode(&record, record_id(5, 0));
        assert_eq!(LogRecord::decode(record_id(5, 0), &bytes), Ok(record));
        assert_eq!(
            LogRecord::decode(record_id(6, 0), &bytes),
            Err(RecordDamage::Header)
        );
    }
}
