//! Envelope of a protobuf object, which names its type. Upstream counterpart: `runtime.Unknown`.

use super::custom_types::lossy_string;
use super::wire::{ReverseWriter, WireReader, WireValue};
use crate::DecodeError;

/// Prefix of every protobuf body.
pub const MAGIC: &[u8] = b"k8s\0";

/// An encoded object and its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEnvelope<'b> {
    pub api_version: String,
    pub kind: String,
    /// The encoded object.
    pub raw: &'b [u8],
}

const TYPE: u32 = 1;
const RAW: u32 = 2;
const CONTENT_ENCODING: u32 = 3;
const CONTENT_TYPE: u32 = 4;
const API_VERSION: u32 = 1;
const KIND: u32 = 2;

impl<'b> UnknownEnvelope<'b> {
    pub fn decode(bytes: &'b [u8]) -> Result<UnknownEnvelope<'b>, DecodeError> {
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
        let mut envelope = UnknownEnvelope {
            api_version: String::new(),
            kind: String::new(),
            raw: &[],
        };
        let mut reader = WireReader::new(bytes);
        while let Some((number, raw)) = reader.field("Unknown")? {
            match number {
                TYPE => envelope.read_type(expect_bytes(raw, "TypeMeta")?)?,
                RAW => envelope.raw = expect_bytes(raw, "Raw")?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut reader = WireReader::new(bytes);
        while let Some((number, raw)) = reader.field("TypeMeta")? {
            match number {
                API_VERSION => self.api_version = lossy_string(expect_bytes(raw, "APIVersion")?),
                KIND => self.kind = lossy_string(expect_bytes(raw, "Kind")?),
                _ => {}
            }
        }
        Ok(())
    }

    /// The envelope bytes before and after an encoded object of `raw_len` bytes.
    pub fn prefix_and_suffix(api_version: &str, kind: &str, raw_len: usize) -> (Vec<u8>, Vec<u8>) {
        let mut type_meta = ReverseWriter::default();
        type_meta.bytes(KIND, kind.as_bytes());
        type_meta.bytes(API_VERSION, api_version.as_bytes());
        let mut prefix = ReverseWriter::default();
        prefix.tag_and_length(RAW, raw_len);
        prefix.bytes(TYPE, &type_meta.into_bytes());
        prefix.raw_bytes(MAGIC);
        let mut suffix = ReverseWriter::default();
        suffix.bytes(CONTENT_TYPE, b"");
        suffix.bytes(CONTENT_ENCODING, b"");
        (prefix.into_bytes(), suffix.into_bytes())
    }

    pub fn encode(&self) -> Vec<u8> {
        let (mut bytes, suffix) =
            UnknownEnvelope::prefix_and_suffix(&self.api_version, &self.kind, self.raw.len());
        bytes.extend_from_slice(self.raw);
        bytes.extend_from_slice(&suffix);
        bytes
    }
}

fn expect_bytes<'b>(raw: WireValue<'b>, field: &str) -> Result<&'b [u8], DecodeError> {
    match raw {
        WireValue::Bytes(bytes) => Ok(bytes),
        other => Err(wrong_wire_type(other, field)),
    }
}

pub(super) fn wrong_wire_type(raw: WireValue<'_>, field: &str) -> DecodeError {
    let found = raw.wire_type();
    DecodeError(format!("proto: wrong wireType = {found} for field {field}"))
}

/// A length-delimited watch event frame: four bytes of length, the event type, and the enveloped object.
pub fn watch_frame(event_type: &str, enveloped: &[u8]) -> Vec<u8> {
    let mut object = ReverseWriter::default();
    object.bytes(1, enveloped);
    let mut event = ReverseWriter::default();
    event.bytes(2, &object.into_bytes());
    event.bytes(1, event_type.as_bytes());
    let event = event.into_bytes();
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&event);
    frame
}
