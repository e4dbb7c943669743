//! What surrounds an object: it says of which type the object is.

use super::special::text;
use super::wire::{Backward, Raw, Reader};
use crate::DecodeError;

/// The first bytes of every body.
pub const MAGIC: &[u8] = b"k8s\0";

/// An object and its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'b> {
    pub api_version: String,
    pub kind: String,
    /// The object itself.
    pub raw: &'b [u8],
}

const TYPE: u32 = 1;
const RAW: u32 = 2;
const CONTENT_ENCODING: u32 = 3;
const CONTENT_TYPE: u32 = 4;
const API_VERSION: u32 = 1;
const KIND: u32 = 2;

impl<'b> Envelope<'b> {
    pub fn open(bytes: &'b [u8]) -> Result<Envelope<'b>, DecodeError> {
        if bytes.is_empty() {
            return Err(DecodeError("empty data".into()));
        }
        let Some(bytes) = bytes.strip_prefix(MAGIC) else {
            return Err(DecodeError(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".into(),
            ));
        };
        if bytes.is_empty() {
            return Err(DecodeError("empty body".into()));
        }
        let mut envelope = Envelope {
            api_version: String::new(),
            kind: String::new(),
            raw: &[],
        };
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.field("Unknown")? {
            match number {
                TYPE => envelope.read_type(content(raw, "TypeMeta")?)?,
                RAW => envelope.raw = content(raw, "Raw")?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.field("TypeMeta")? {
            match number {
                API_VERSION => self.api_version = text(content(raw, "APIVersion")?),
                KIND => self.kind = text(content(raw, "Kind")?),
                _ => {}
            }
        }
        Ok(())
    }

    /// What comes before and after an object of so many bytes.
    pub fn around(api_version: &str, kind: &str, raw_bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let mut types = Backward::default();
        types.bytes(KIND, kind.as_bytes());
        types.bytes(API_VERSION, api_version.as_bytes());
        let mut head = Backward::default();
        head.announce(RAW, raw_bytes);
        head.bytes(TYPE, &types.into_bytes());
        head.raw(MAGIC);
        let mut tail = Backward::default();
        tail.bytes(CONTENT_TYPE, b"");
        tail.bytes(CONTENT_ENCODING, b"");
        (head.into_bytes(), tail.into_bytes())
    }

    pub fn seal(&self) -> Vec<u8> {
        let (mut bytes, tail) = Envelope::around(&self.api_version, &self.kind, self.raw.len());
        bytes.extend_from_slice(self.raw);
        bytes.extend_from_slice(&tail);
        bytes
    }
}

fn content<'b>(raw: Raw<'b>, field: &str) -> Result<&'b [u8], DecodeError> {
    match raw {
        Raw::Bytes(bytes) => Ok(bytes),
        other => Err(wrong_wire_type(other, field)),
    }
}

pub(super) fn wrong_wire_type(raw: Raw<'_>, field: &str) -> DecodeError {
    let found = raw.wire_type();
    DecodeError(format!("proto: wrong wireType = {found} for field {field}"))
}

/// A change as a frame of a watch: its length in four bytes, its kind, and the sealed object.
pub fn watch_frame(kind: &str, sealed: &[u8]) -> Vec<u8> {
    let mut object = Backward::default();
    object.bytes(1, sealed);
    let mut event = Backward::default();
    event.bytes(2, &object.into_bytes());
    event.bytes(1, kind.as_bytes());
    let event = event.into_bytes();
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&event);
    frame
}
