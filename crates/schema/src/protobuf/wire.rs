//! Protobuf wire format: tags, varints and length-delimited values.

use crate::DecodeError;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const GROUP: u64 = 3;
const GROUP_END: u64 = 4;
const FIXED32: u64 = 5;

fn error(text: &str) -> DecodeError {
    DecodeError(text.to_owned())
}

/// One undecoded field value.
#[derive(Debug, Clone, Copy)]
pub(super) enum WireValue<'i> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'i [u8]),
    Group,
    Fixed32,
}

impl WireValue<'_> {
    /// Whether it is the encoding of an unset field.
    pub(super) fn is_zero(self) -> bool {
        match self {
            WireValue::Varint(bits) | WireValue::Fixed64(bits) => bits == 0,
            WireValue::Bytes(bytes) => bytes.is_empty(),
            WireValue::Group | WireValue::Fixed32 => false,
        }
    }

    pub(super) fn wire_type(self) -> u64 {
        match self {
            WireValue::Varint(_) => VARINT,
            WireValue::Fixed64(_) => FIXED64,
            WireValue::Bytes(_) => BYTES,
            WireValue::Group => GROUP,
            WireValue::Fixed32 => FIXED32,
        }
    }
}

/// Reads the fields of one message.
#[derive(Debug)]
pub(super) struct WireReader<'i> {
    rest: &'i [u8],
}

impl<'i> WireReader<'i> {
    pub(super) fn new(bytes: &'i [u8]) -> WireReader<'i> {
        WireReader { rest: bytes }
    }

    /// The number and value of the next field; `None` at the end. `message` is the name for errors.
    pub(super) fn field(
        &mut self,
        message: &str,
    ) -> Result<Option<(u32, WireValue<'i>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        if tag & 7 == GROUP_END {
            return Err(DecodeError(format!(
                "proto: {message}: wiretype end group for non-group"
            )));
        }
        let number = field_number(tag);
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Some((number, self.value(tag & 7)?))),
            _ => Err(DecodeError(format!(
                "proto: {message}: illegal tag {number} (wire type {tag})"
            ))),
        }
    }

    fn value(&mut self, wire_type: u64) -> Result<WireValue<'i>, DecodeError> {
        Ok(match wire_type {
            VARINT => WireValue::Varint(self.varint()?),
            FIXED64 => {
                let bytes = self.take(8)?;
                let bytes = bytes.try_into().map_err(|_| error("unexpected EOF"))?;
                WireValue::Fixed64(u64::from_le_bytes(bytes))
            }
            BYTES => {
                let length = self.varint()?;
                if length > i64::MAX.unsigned_abs() {
                    return Err(error("proto: negative length found during unmarshaling"));
                }
                let length = usize::try_from(length).map_err(|_| error("unexpected EOF"))?;
                WireValue::Bytes(self.take(length)?)
            }
            GROUP => {
                self.skip_group()?;
                WireValue::Group
            }
            FIXED32 => {
                self.take(4)?;
                WireValue::Fixed32
            }
            GROUP_END => return Err(error("proto: unexpected end of group")),
            other => return Err(DecodeError(format!("proto: illegal wireType {other}"))),
        })
    }

    /// Skips a group. No field in the schema is a group; nested groups are skipped by counting start and end tags.
    fn skip_group(&mut self) -> Result<(), DecodeError> {
        let mut open = 1_usize;
        while open > 0 {
            match self.varint()? & 7 {
                GROUP => open += 1,
                GROUP_END => open -= 1,
                other => {
                    self.value(other)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for (index, &byte) in self.rest.iter().enumerate() {
            if index == 10 {
                return Err(error("proto: integer overflow"));
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(error("unexpected EOF"))
    }

    fn take(&mut self, length: usize) -> Result<&'i [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| error("unexpected EOF"))?;
        self.rest = rest;
        Ok(taken)
    }
}

/// Go truncates field numbers to 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "as Go does")]
fn field_number(tag: u64) -> i32 {
    (tag >> 3) as i32
}

/// Writes a message from its end to its start, so that every length is known when its prefix is written.
#[derive(Debug, Default)]
pub(super) struct ReverseWriter {
    /// Last byte first.
    bytes: Vec<u8>,
}

impl ReverseWriter {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.bytes;
        bytes.reverse();
        bytes
    }

    pub(super) fn raw_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes.iter().rev());
    }

    fn bare_varint(&mut self, mut value: u64) {
        let mut digits = [0_u8; 10];
        let mut count = 0;
        loop {
            let more = value >= 0x80;
            digits[count] = (value & 0x7f) as u8 | u8::from(more) << 7;
            count += 1;
            value >>= 7;
            if !more {
                break;
            }
        }
        self.raw_bytes(&digits[..count]);
    }

    fn tag(&mut self, number: u32, wire_type: u64) {
        self.bare_varint(u64::from(number) << 3 | wire_type);
    }

    pub(super) fn varint(&mut self, number: u32, value: u64) {
        self.bare_varint(value);
        self.tag(number, VARINT);
    }

    pub(super) fn fixed64(&mut self, number: u32, value: u64) {
        self.raw_bytes(&value.to_le_bytes());
        self.tag(number, FIXED64);
    }

    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.raw_bytes(bytes);
        self.tag_and_length(number, bytes.len());
    }

    /// Writes the tag and length prefix of a field of `bytes` bytes.
    pub(super) fn tag_and_length(&mut self, number: u32, bytes: usize) {
        self.bare_varint(bytes as u64);
        self.tag(number, BYTES);
    }

    /// Writes a nested message.
    pub(super) fn nested<E>(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut ReverseWriter) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = self.bytes.len();
        write(self)?;
        self.tag_and_length(number, self.bytes.len() - end);
        Ok(())
    }
}
