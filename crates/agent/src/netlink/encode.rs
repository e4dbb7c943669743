//! Encodes netlink messages and attributes.

use std::fmt::Display;
use std::io::Write as _;

use super::{ALIGNMENT, ATTRIBUTE_BYTES, HEADER_BYTES, NESTED, REQUEST, aligned};

/// A buffer to which messages are appended.
#[derive(Debug, Default)]
pub(crate) struct NetlinkWriter {
    bytes: Vec<u8>,
    /// Something was longer than its length field can express.
    is_too_long: bool,
}

/// Fields of the netlink and netfilter headers. The length is filled in after the body.
#[derive(Debug, Clone, Copy)]
pub(super) struct NetlinkHeader {
    pub(super) kind: u16,
    /// In addition to NLM_F_REQUEST.
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) family: u8,
    pub(super) resource_id: u16,
}

impl NetlinkWriter {
    pub(super) fn message(&mut self, header: NetlinkHeader, body: impl FnOnce(&mut NetlinkWriter)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(header.kind.to_ne_bytes());
        self.bytes.extend((header.flags | REQUEST).to_ne_bytes());
        self.bytes.extend(header.sequence.to_ne_bytes());
        // The kernel fills in the port id of the sender.
        self.bytes.extend([0; 4]);
        debug_assert_eq!(self.bytes.len() - start, HEADER_BYTES);
        self.bytes.extend([header.family, 0]);
        self.bytes.extend(header.resource_id.to_be_bytes());
        body(self);
        let length = self.bytes.len() - start;
        match u32::try_from(length) {
            Ok(length) => self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes()),
            Err(_) => self.is_too_long = true,
        }
    }

    /// Writes an attribute whose value `body` appends.
    pub(crate) fn value(&mut self, kind: u16, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.open(kind);
        body(&mut self.bytes);
        self.close(start);
    }

    pub(crate) fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.value(kind, |bytes| bytes.extend(value));
    }

    /// Writes a NUL-terminated string attribute.
    pub(crate) fn text(&mut self, kind: u16, text: impl Display) {
        self.value(kind, |bytes| {
            // Writing to a Vec cannot fail.
            let _ = write!(bytes, "{text}");
            bytes.push(0);
        });
    }

    /// Writes a big-endian u32 attribute, as nftables expects.
    pub(crate) fn number(&mut self, kind: u16, number: u32) {
        self.bytes(kind, &number.to_be_bytes());
    }

    /// Writes a nested attribute.
    pub(crate) fn nested(&mut self, kind: u16, body: impl FnOnce(&mut NetlinkWriter)) {
        let start = self.open(kind | NESTED);
        body(self);
        self.close(start);
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        debug_assert_eq!(self.bytes.len() - start, ATTRIBUTE_BYTES);
        start
    }

    /// Fills in the length, which excludes padding, and pads to the alignment.
    fn close(&mut self, start: usize) {
        let length = self.bytes.len() - start;
        match u16::try_from(length) {
            Ok(length) => self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes()),
            Err(_) => self.is_too_long = true,
        }
        self.bytes
            .extend(&[0; ALIGNMENT][..aligned(length) - length]);
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Sets a flag of the message that begins at offset `message`.
    pub(super) fn set_flag(&mut self, message: usize, flag: u16) {
        let [low, high] = flag.to_ne_bytes();
        self.bytes[message + 6] |= low;
        self.bytes[message + 7] |= high;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_aligned_and_have_their_length() {
        let mut writer = NetlinkWriter::default();
        let header = NetlinkHeader {
            kind: 0x0a03,
            flags: 0x400,
            sequence: 7,
            family: 1,
            resource_id: 10,
        };
        writer.message(header, |writer| {
            writer.text(1, "ab");
            writer.nested(2, |writer| writer.number(3, 0x0102_0304));
        });
        let (length, kind, flags) = (40_u32, 0x0a03_u16, 0x401_u16);
        let mut expected = Vec::new();
        expected.extend(length.to_ne_bytes());
        expected.extend(kind.to_ne_bytes());
        expected.extend(flags.to_ne_bytes());
        expected.extend(7_u32.to_ne_bytes());
        expected.extend([0, 0, 0, 0, 1, 0, 0, 10]);
        for (length, kind, value) in [
            (7_u16, 1_u16, &b"ab\0\0"[..]),
            (12, 0x8002, &[]),
            (8, 3, &[1, 2, 3, 4]),
        ] {
            expected.extend(length.to_ne_bytes());
            expected.extend(kind.to_ne_bytes());
            expected.extend(value);
        }
        assert_eq!(writer.as_bytes(), expected);
        assert!(!writer.is_too_long());
    }

    #[test]
    fn oversized_attributes_are_detected() {
        for (bytes, is_too_long) in [(0xffff - 4, false), (0xffff - 3, true)] {
            let mut writer = NetlinkWriter::default();
            writer.bytes(1, &vec![0; bytes]);
            assert_eq!(writer.is_too_long(), is_too_long, "{bytes}");
        }
    }
}
