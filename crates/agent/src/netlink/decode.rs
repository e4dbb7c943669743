//! Decodes netlink messages and attributes.

use super::{ATTRIBUTE_BYTES, HEADER_BYTES, SUBHEADER_BYTES, aligned};

/// Iterates over the messages of a datagram. A truncated message is the last one, with a shortened body.
#[derive(Debug, Clone)]
pub(crate) struct NetlinkMessages<'a>(pub(crate) &'a [u8]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NetlinkMessage<'a> {
    pub(crate) kind: u16,
    pub(crate) sequence: u32,
    /// The port id of the socket that caused the message.
    pub(crate) port: u32,
    /// The bytes after the header.
    pub(crate) body: &'a [u8],
}

impl<'a> Iterator for NetlinkMessages<'a> {
    type Item = NetlinkMessage<'a>;

    fn next(&mut self) -> Option<NetlinkMessage<'a>> {
        let bytes = self.0;
        let length = usize::try_from(read_u32(bytes, 0)?).ok()?;
        let message = NetlinkMessage {
            kind: read_u16(bytes, 4)?,
            sequence: read_u32(bytes, 8)?,
            port: read_u32(bytes, 12)?,
            body: bytes.get(HEADER_BYTES..length.min(bytes.len()))?,
        };
        self.0 = bytes.get(aligned(length)..).unwrap_or_default();
        Some(message)
    }
}

impl<'a> NetlinkMessage<'a> {
    /// The family of the object.
    pub(crate) fn family(&self) -> Option<u8> {
        self.body.first().copied()
    }

    pub(crate) fn attributes(&self) -> NetlinkAttributes<'a> {
        NetlinkAttributes(self.body.get(SUBHEADER_BYTES..).unwrap_or_default())
    }
}

/// Iterates over attributes as (type, value).
#[derive(Debug, Clone)]
pub(crate) struct NetlinkAttributes<'a>(&'a [u8]);

impl<'a> NetlinkAttributes<'a> {
    /// The value of the first attribute of a type.
    pub(crate) fn find(&self, kind: u16) -> Option<&'a [u8]> {
        let mut all = self.clone();
        all.find_map(|(of, value)| (of == kind).then_some(value))
    }

    /// The attributes nested in the first attribute of a type.
    pub(crate) fn nested(&self, kind: u16) -> Option<NetlinkAttributes<'a>> {
        self.find(kind).map(NetlinkAttributes)
    }
}

impl<'a> Iterator for NetlinkAttributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        /// NLA_TYPE_MASK: the upper bits are flags.
        const KIND: u16 = 0x3fff;
        let bytes = self.0;
        let length = usize::from(read_u16(bytes, 0)?);
        let kind = read_u16(bytes, 2)? & KIND;
        let value = bytes.get(ATTRIBUTE_BYTES..length)?;
        self.0 = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    bytes.try_into().ok().map(u16::from_ne_bytes)
}

/// In native byte order.
pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::encode::{NetlinkHeader, NetlinkWriter};
    use super::*;

    #[test]
    fn encoded_messages_are_decoded() {
        let mut writer = NetlinkWriter::default();
        for sequence in [1, 2] {
            let header = NetlinkHeader {
                kind: 5,
                flags: 0,
                sequence,
                family: 2,
                resource_id: 0,
            };
            writer.message(header, |writer| {
                writer.text(1, "abc");
                writer.nested(4, |writer| writer.bytes(2, &[7]));
            });
        }
        let all: Vec<NetlinkMessage<'_>> = NetlinkMessages(writer.as_bytes()).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[1].kind, all[1].sequence, all[1].port), (5, 2, 0));
        assert_eq!(all[1].family(), Some(2));
        let attributes = all[1].attributes();
        assert_eq!(attributes.find(1), Some(&b"abc\0"[..]));
        assert_eq!(attributes.find(3), None);
        let within = attributes.nested(4).unwrap();
        assert_eq!(within.collect::<Vec<_>>(), [(2, &[7][..])]);
    }

    #[test]
    fn malformed_messages_are_decoded_without_panic() {
        for bytes in [
            &[][..],
            &[0; 3],
            &[0; 16],
            &[0; 64],
            &[0xff; 64],
            &[
                20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
            ],
        ] {
            for message in NetlinkMessages(bytes) {
                assert!(message.attributes().count() <= bytes.len());
            }
        }
    }
}
