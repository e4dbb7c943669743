//! What the kernel says, from bytes.

use super::{ATTRIBUTE_BYTES, HEADER_BYTES, SUBHEADER_BYTES, aligned};

/// The messages of a datagram. One that was cut off is the last, with what there is of it.
#[derive(Debug, Clone)]
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) sequence: u32,
    /// Of the socket that caused it.
    pub(crate) port: u32,
    /// After the header.
    pub(crate) body: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let bytes = self.0;
        let length = usize::try_from(number(bytes, 0)?).ok()?;
        let message = Message {
            kind: half(bytes, 4)?,
            sequence: number(bytes, 8)?,
            port: number(bytes, 12)?,
            body: bytes.get(HEADER_BYTES..length.min(bytes.len()))?,
        };
        self.0 = bytes.get(aligned(length)..).unwrap_or_default();
        Some(message)
    }
}

impl<'a> Message<'a> {
    /// The family that it is about.
    pub(crate) fn family(&self) -> Option<u8> {
        self.body.first().copied()
    }

    pub(crate) fn attributes(&self) -> Attributes<'a> {
        Attributes(self.body.get(SUBHEADER_BYTES..).unwrap_or_default())
    }
}

/// Each with its type and its value.
#[derive(Debug, Clone)]
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The value of the first one of a type.
    pub(crate) fn find(&self, kind: u16) -> Option<&'a [u8]> {
        let mut all = self.clone();
        all.find_map(|(of, value)| (of == kind).then_some(value))
    }

    /// Those that the first one of a type consists of.
    pub(crate) fn within(&self, kind: u16) -> Option<Attributes<'a>> {
        self.find(kind).map(Attributes)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        /// The upper bits say what a value is like.
        const KIND: u16 = 0x3fff;
        let bytes = self.0;
        let length = usize::from(half(bytes, 0)?);
        let kind = half(bytes, 2)? & KIND;
        let value = bytes.get(ATTRIBUTE_BYTES..length)?;
        self.0 = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    bytes.try_into().ok().map(u16::from_ne_bytes)
}

/// In the order of bytes of this machine.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::write::{Header, Writer};
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut writer = Writer::default();
        for sequence in [1, 2] {
            let header = Header {
                kind: 5,
                flags: 0,
                sequence,
                family: 2,
                number: 0,
            };
            writer.message(header, |writer| {
                writer.text(1, "abc");
                writer.nested(4, |writer| writer.bytes(2, &[7]));
            });
        }
        let all: Vec<Message<'_>> = Messages(writer.as_bytes()).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[1].kind, all[1].sequence, all[1].port), (5, 2, 0));
        assert_eq!(all[1].family(), Some(2));
        let attributes = all[1].attributes();
        assert_eq!(attributes.find(1), Some(&b"abc\0"[..]));
        assert_eq!(attributes.find(3), None);
        let within = attributes.within(4).unwrap();
        assert_eq!(within.collect::<Vec<_>>(), [(2, &[7][..])]);
    }

    #[test]
    fn whatever_comes_is_read_to_its_end() {
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
            for message in Messages(bytes) {
                assert!(message.attributes().count() <= bytes.len());
            }
        }
    }
}
