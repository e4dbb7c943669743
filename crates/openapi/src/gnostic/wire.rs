//! A minimal protobuf message writer.

use prost::encoding::{WireType, bool, encode_key, encode_varint, string};

/// A protobuf message under construction.
#[derive(Debug, Default)]
pub(super) struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    pub(super) fn new() -> ProtobufMessage {
        ProtobufMessage::default()
    }

    /// Adds a string field; an empty string is omitted.
    pub(super) fn text(mut self, field: u32, text: &str) -> ProtobufMessage {
        if !text.is_empty() {
            string::encode(field, &text.to_string(), &mut self.0);
        }
        self
    }

    pub(super) fn texts<'a>(
        self,
        field: u32,
        texts: impl Iterator<Item = &'a str>,
    ) -> ProtobufMessage {
        texts.fold(self, |message, text| message.text(field, text))
    }

    pub(super) fn flag(mut self, field: u32, flag: bool) -> ProtobufMessage {
        if flag {
            bool::encode(field, &flag, &mut self.0);
        }
        self
    }

    pub(super) fn message(mut self, field: u32, message: &ProtobufMessage) -> ProtobufMessage {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(message.0.len() as u64, &mut self.0);
        self.0.extend_from_slice(&message.0);
        self
    }

    pub(super) fn messages(
        self,
        field: u32,
        messages: impl Iterator<Item = ProtobufMessage>,
    ) -> ProtobufMessage {
        messages.fold(self, |all, message| all.message(field, &message))
    }

    /// A name and a value, gnostic's encoding of map entries.
    pub(super) fn named_entry(name: &str, value: &ProtobufMessage) -> ProtobufMessage {
        ProtobufMessage::new().text(1, name).message(2, value)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
