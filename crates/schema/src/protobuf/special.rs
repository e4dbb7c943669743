//! Types with a JSON form of their own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rhumb_meta::Timestamp;
use serde_json::Value;

use super::envelope::wrong_wire_type;
use super::wire::{Raw, Reader};
use crate::decode::{any_value, canonical_quantity};
use crate::{DecodeError, Shape};

/// The numbers of the schema and of what may stand for it.
pub(super) fn alternative_numbers(shape: &Shape) -> (u32, u32) {
    match shape {
        Shape::OrBool(_) => (2, 1),
        _ => (1, 2),
    }
}

/// What is no UTF-8 looks as it does when Go writes it as JSON.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

pub(super) fn base64_of(bytes: &[u8]) -> Value {
    Value::String(STANDARD.encode(bytes))
}

pub(super) fn from_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    STANDARD.decode(text)
}

pub(super) fn read_quantity(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut quantity = Value::String("0".to_owned());
    let mut reader = Reader::new(bytes);
    while let Some((number, raw)) = reader.field("Quantity")? {
        match (number, raw) {
            (1, Raw::Bytes(bytes)) => {
                quantity = Value::String(canonical_quantity(&text(bytes)).map_err(DecodeError)?);
            }
            (1, other) => return Err(wrong_wire_type(other, "String_")),
            _ => {}
        }
    }
    Ok(quantity)
}

pub(super) fn read_int_or_string(bytes: &[u8]) -> Result<Value, DecodeError> {
    let (mut kind, mut number, mut string) = (0_u64, 0_i32, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((field, raw)) = reader.field("IntOrString")? {
        match (field, raw) {
            (1, Raw::Varint(bits)) => kind = bits,
            #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
            (2, Raw::Varint(bits)) => number = bits as i32,
            (3, Raw::Bytes(bytes)) => string = text(bytes),
            (1, other) => return Err(wrong_wire_type(other, "Type")),
            (2, other) => return Err(wrong_wire_type(other, "IntVal")),
            (3, other) => return Err(wrong_wire_type(other, "StrVal")),
            _ => {}
        }
    }
    match kind {
        0 => Ok(number.into()),
        1 => Ok(Value::String(string)),
        _ => Err(DecodeError("impossible IntOrString.Type".into())),
    }
}

/// The range that JSON can show: the years 0 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Seconds and nanoseconds; `None` for Go's zero time.
fn read_timestamp(bytes: &[u8]) -> Result<Option<(i64, i64)>, DecodeError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    let mut reader = Reader::new(bytes);
    while let Some((field, raw)) = reader.field("Timestamp")? {
        match (field, raw) {
            (1, Raw::Varint(bits)) => seconds = bits.cast_signed(),
            #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
            (2, Raw::Varint(bits)) => nanos = i64::from(bits as i32),
            (1, other) => return Err(wrong_wire_type(other, "Seconds")),
            (2, other) => return Err(wrong_wire_type(other, "Nanos")),
            _ => {}
        }
    }
    Ok(Some((seconds, nanos)))
}

pub(super) fn read_time(bytes: &[u8]) -> Result<Value, DecodeError> {
    match read_timestamp(bytes)? {
        None => Ok(Value::Null),
        Some((seconds, _)) => time(seconds, 0).map(|time| time.rfc3339().to_string().into()),
    }
}

pub(super) fn read_micro_time(bytes: &[u8]) -> Result<Value, DecodeError> {
    const NANOS_PER_MICRO: i64 = 1000;
    const NANOS_PER_SECOND: i64 = 1_000_000_000;
    let Some((seconds, nanos)) = read_timestamp(bytes)? else {
        return Ok(Value::Null);
    };
    let nanos = nanos / NANOS_PER_MICRO * NANOS_PER_MICRO;
    let seconds = seconds.saturating_add(nanos.div_euclid(NANOS_PER_SECOND));
    let nanos = u32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).unwrap_or_default();
    time(seconds, nanos).map(|time| time.rfc3339_micro().to_string().into())
}

fn time(seconds: i64, nanos: u32) -> Result<Timestamp, DecodeError> {
    if SECONDS.contains(&seconds) {
        Ok(Timestamp::from_unix(seconds, nanos))
    } else {
        Err(DecodeError(
            "Time.MarshalJSON: year outside of range [0,9999]".into(),
        ))
    }
}

/// JSON as it is. Absent and empty are null.
pub(super) fn read_any(bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let mut json: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while let Some((field, raw)) = reader.field("RawExtension")? {
        match (field, raw) {
            (1, Raw::Bytes(bytes)) => json = bytes,
            (1, other) => return Err(wrong_wire_type(other, "Raw")),
            _ => {}
        }
    }
    if json.is_empty() {
        return Ok(Value::Null);
    }
    any_value(json, depth)
}
