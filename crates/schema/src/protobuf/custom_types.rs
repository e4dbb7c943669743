//! Protobuf encoding of types that Go marshals to JSON with custom code: quantities, times, `IntOrString`, raw JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rhumb_meta::Timestamp;
use serde_json::Value;

use super::envelope::wrong_wire_type;
use super::wire::{WireReader, WireValue};
use crate::decode::{canonical_quantity, decode_untyped_value};
use crate::{DecodeError, ValueType};

/// Field numbers of the schema and of its alternative in `JSONSchemaPropsOrBool` and the like.
pub(super) fn schema_or_alternative_numbers(value_type: &ValueType) -> (u32, u32) {
    match value_type {
        ValueType::SchemaOrBool(_) => (2, 1),
        _ => (1, 2),
    }
}

/// Replaces invalid UTF-8 as Go does when it writes JSON.
pub(super) fn lossy_string(bytes: &[u8]) -> String {
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
    let mut reader = WireReader::new(bytes);
    while let Some((number, wire_value)) = reader.field("Quantity")? {
        match (number, wire_value) {
            (1, WireValue::Bytes(bytes)) => {
                quantity =
                    Value::String(canonical_quantity(&lossy_string(bytes)).map_err(DecodeError)?);
            }
            (1, other) => return Err(wrong_wire_type(other, "String_")),
            _ => {}
        }
    }
    Ok(quantity)
}

pub(super) fn read_int_or_string(bytes: &[u8]) -> Result<Value, DecodeError> {
    let (mut kind, mut number, mut string) = (0_u64, 0_i32, String::new());
    let mut reader = WireReader::new(bytes);
    while let Some((field, wire_value)) = reader.field("IntOrString")? {
        match (field, wire_value) {
            (1, WireValue::Varint(bits)) => kind = bits,
            #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
            (2, WireValue::Varint(bits)) => number = bits as i32,
            (3, WireValue::Bytes(bytes)) => string = lossy_string(bytes),
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

/// Unix times that Go can write as JSON: the years 0 to 9999.
const SECONDS_RANGE: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

/// Seconds and nanoseconds; `None` for Go's zero time.
fn read_timestamp(bytes: &[u8]) -> Result<Option<(i64, i64)>, DecodeError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    let mut reader = WireReader::new(bytes);
    while let Some((field, wire_value)) = reader.field("Timestamp")? {
        match (field, wire_value) {
            (1, WireValue::Varint(bits)) => seconds = bits.cast_signed(),
            #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
            (2, WireValue::Varint(bits)) => nanos = i64::from(bits as i32),
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
        Some((seconds, _)) => {
            checked_timestamp(seconds, 0).map(|time| time.rfc3339().to_string().into())
        }
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
    checked_timestamp(seconds, nanos).map(|time| time.rfc3339_micro().to_string().into())
}

fn checked_timestamp(seconds: i64, nanos: u32) -> Result<Timestamp, DecodeError> {
    if SECONDS_RANGE.contains(&seconds) {
        Ok(Timestamp::from_unix(seconds, nanos))
    } else {
        Err(DecodeError(
            "Time.MarshalJSON: year outside of range [0,9999]".into(),
        ))
    }
}

/// Decodes a `RawExtension`, which contains JSON. Absent and empty are null.
pub(super) fn read_any(bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let mut json: &[u8] = &[];
    let mut reader = WireReader::new(bytes);
    while let Some((field, wire_value)) = reader.field("RawExtension")? {
        match (field, wire_value) {
            (1, WireValue::Bytes(bytes)) => json = bytes,
            (1, other) => return Err(wrong_wire_type(other, "Raw")),
            _ => {}
        }
    }
    if json.is_empty() {
        return Ok(Value::Null);
    }
    decode_untyped_value(json, depth)
}
