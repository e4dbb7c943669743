//! Messages of protocol buffers, written field by field.

use prost::encoding::{WireType, bool, encode_key, encode_varint, string};

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new() -> Message {
        Message::default()
    }

    /// A text; an empty one is the same as none.
    pub(super) fn text(mut self, field: u32, text: &str) -> Message {
        if !text.is_empty() {
            string::encode(field, &text.to_string(), &mut self.0);
        }
        self
    }

    pub(super) fn texts<'a>(self, field: u32, texts: impl Iterator<Item = &'a str>) -> Message {
        texts.fold(self, |message, text| message.text(field, text))
    }

    pub(super) fn flag(mut self, field: u32, flag: bool) -> Message {
        if flag {
            bool::encode(field, &flag, &mut self.0);
        }
        self
    }

    pub(super) fn message(mut self, field: u32, message: &Message) -> Message {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(message.0.len() as u64, &mut self.0);
        self.0.extend_from_slice(&message.0);
        self
    }

    pub(super) fn messages(self, field: u32, messages: impl Iterator<Item = Message>) -> Message {
        messages.fold(self, |all, message| all.message(field, &message))
    }

    /// A name and a message, the form in which all maps are written.
    pub(super) fn named(name: &str, value: &Message) -> Message {
        Message::new().text(1, name).message(2, value)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
