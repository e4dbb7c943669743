//! Decodes protobuf messages into objects.

use std::collections::BTreeSet;

use serde_json::Value;

use super::custom_types::{self, lossy_string};
use super::envelope::wrong_wire_type;
use super::message_layout::{LayoutContent, MessageLayout};
use super::wire::{WireReader, WireValue};
use crate::decode::{float, zero};
use crate::{DecodeError, DecodeOutput, Field, MAX_DEPTH, Object, Table, TypeId, ValueType};

/// Decodes a message. Unknown fields are skipped, as upstream does.
pub fn decode(table: &Table, type_id: TypeId, bytes: &[u8]) -> Result<Object, DecodeError> {
    let decoded = decode_strict(table, type_id, bytes)?;
    Ok(decoded.object)
}

/// As [`decode`], but reports unknown fields as problems. Unknown fields with zero values are ignored: upstream's
/// clients write most fields even if they are not set, including fields that were removed long ago.
pub fn decode_strict(
    table: &Table,
    type_id: TypeId,
    bytes: &[u8],
) -> Result<DecodeOutput, DecodeError> {
    let mut object = Object::new();
    let mut decoder = ProtobufDecoder {
        table,
        depth: 0,
        rejects_unknown_fields: false,
        unknown_fields: BTreeSet::new(),
    };
    decoder.object(type_id, bytes, &mut object)?;
    let (mut problems, mut rejected) = (Vec::new(), Vec::new());
    for unknown in decoder.unknown_fields {
        let UnknownField {
            type_id,
            number,
            is_rejected,
        } = unknown;
        let list = match is_rejected {
            true => &mut rejected,
            false => &mut problems,
        };
        let go_name = &table.get(type_id).go_name;
        list.push(format!("unknown field number {number} of {go_name}"));
    }
    Ok(DecodeOutput {
        object,
        problems,
        rejected,
        alias_warnings: Vec::new(),
    })
}

/// Maximum number of reported unknown fields.
const MAX_UNKNOWN_FIELDS: usize = 100;

/// Decodes one message and collects its unknown fields.
pub(super) struct ProtobufDecoder<'t> {
    table: &'t Table,
    depth: usize,
    /// Whether the message is in one whose type rejects unknown fields.
    rejects_unknown_fields: bool,
    /// Unknown fields with non-zero values.
    unknown_fields: BTreeSet<UnknownField>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnknownField {
    type_id: TypeId,
    number: u32,
    is_rejected: bool,
}

impl ProtobufDecoder<'_> {
    fn object(&mut self, id: TypeId, bytes: &[u8], object: &mut Object) -> Result<(), DecodeError> {
        let message = self.table.message(id);
        let outer = self.rejects_unknown_fields;
        self.rejects_unknown_fields |= self.table.get(id).reject_unknown_fields;
        let result =
            self.with_deeper_nesting(|decoder| decoder.message(id, message, bytes, object));
        self.rejects_unknown_fields = outer;
        result
    }

    fn with_deeper_nesting<T>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.depth >= MAX_DEPTH {
            return Err(DecodeError(format!(
                "proto: nested deeper than {MAX_DEPTH} levels"
            )));
        }
        self.depth += 1;
        let result = decode(self);
        self.depth -= 1;
        result
    }

    fn message(
        &mut self,
        id: TypeId,
        message: &MessageLayout,
        bytes: &[u8],
        object: &mut Object,
    ) -> Result<(), DecodeError> {
        let object_type = self.table.get(id);
        let mut reader = WireReader::new(bytes);
        while let Some((number, wire_value)) = reader.field(object_type.short_go_name())? {
            let Some(layout_field) = message.field(number) else {
                if !wire_value.is_zero() && self.unknown_fields.len() < MAX_UNKNOWN_FIELDS {
                    self.unknown_fields.insert(UnknownField {
                        type_id: id,
                        number,
                        is_rejected: self.rejects_unknown_fields,
                    });
                }
                continue;
            };
            match &layout_field.content {
                LayoutContent::Field(position) => {
                    self.field(&object_type.fields[*position], wire_value, object)?;
                }
                LayoutContent::Embedded(inner) => match wire_value {
                    WireValue::Bytes(bytes) => self.message(id, inner, bytes, object)?,
                    other => return Err(wrong_wire_type(other, object_type.short_go_name())),
                },
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Field,
        wire_value: WireValue<'_>,
        object: &mut Object,
    ) -> Result<(), DecodeError> {
        match (&field.value_type, wire_value) {
            (ValueType::List(list_schema), WireValue::Bytes(bytes)) if field.is_list_message() => {
                let list = self.with_deeper_nesting(|decoder| {
                    decoder.list_message(field, &list_schema.item_type, bytes)
                })?;
                object.insert((*field.name).to_owned(), list);
                Ok(())
            }
            (ValueType::List(list_schema), wire_value) => {
                let list = object
                    .entry(&*field.name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    self.with_deeper_nesting(|decoder| {
                        decoder.item(field, &list_schema.item_type, wire_value, list)
                    })?;
                    // A packed list may be empty.
                    if list.is_empty() {
                        object.remove(&*field.name);
                    }
                }
                Ok(())
            }
            (ValueType::Map(values), wire_value) => {
                let map = object
                    .entry(&*field.name)
                    .or_insert_with(|| Value::Object(Object::new()));
                match map {
                    Value::Object(map) => self.with_deeper_nesting(|decoder| {
                        decoder.map_entry(field, values, wire_value, map)
                    }),
                    _ => Ok(()),
                }
            }
            (value_type, wire_value) => {
                let old = object.remove(&*field.name);
                let value = self.value(field, value_type, wire_value, old)?;
                if !(value.is_null() || (!field.pointer && is_zero(value_type, &value))) {
                    object.insert((*field.name).to_owned(), value);
                }
                Ok(())
            }
        }
    }

    /// Decodes one item of a list, or all items of a packed list.
    fn item(
        &mut self,
        field: &Field,
        value_type: &ValueType,
        wire_value: WireValue<'_>,
        list: &mut Vec<Value>,
    ) -> Result<(), DecodeError> {
        let packable = matches!(
            value_type,
            ValueType::Bool | ValueType::Int32 | ValueType::Int64
        );
        match wire_value {
            WireValue::Bytes(bytes) if packable => {
                let mut reader = WireReader::new(bytes);
                while !reader.is_empty() {
                    let number = WireValue::Varint(reader.varint()?);
                    list.push(self.value(field, value_type, number, None)?);
                }
            }
            wire_value => list.push(self.value(field, value_type, wire_value, None)?),
        }
        Ok(())
    }

    fn map_entry(
        &mut self,
        field: &Field,
        value_type: &ValueType,
        wire_value: WireValue<'_>,
        map: &mut Object,
    ) -> Result<(), DecodeError> {
        let WireValue::Bytes(bytes) = wire_value else {
            return Err(wrong_wire_type(wire_value, &go_name(field)));
        };
        let mut key = String::new();
        let mut value = match value_type {
            ValueType::Bytes => Value::String(String::new()),
            ValueType::List(_) => Value::Array(Vec::new()),
            value_type => zero(value_type),
        };
        let mut reader = WireReader::new(bytes);
        while let Some((number, wire_value)) = reader.field(&go_name(field))? {
            match (number, wire_value) {
                (1, WireValue::Bytes(bytes)) => key = lossy_string(bytes),
                (2, WireValue::Bytes(bytes)) => {
                    if let ValueType::List(list_schema) = value_type {
                        value = self.with_deeper_nesting(|decoder| {
                            decoder.list_message(field, &list_schema.item_type, bytes)
                        })?;
                    } else {
                        value = self.value(field, value_type, wire_value, None)?;
                    }
                }
                (2, wire_value) => value = self.value(field, value_type, wire_value, None)?,
                _ => {}
            }
        }
        map.insert(key, value);
        Ok(())
    }

    /// Decodes a list that is encoded as a separate message, as list values of maps are.
    fn list_message(
        &mut self,
        field: &Field,
        value_type: &ValueType,
        bytes: &[u8],
    ) -> Result<Value, DecodeError> {
        let mut list = Vec::new();
        let mut reader = WireReader::new(bytes);
        while let Some((number, wire_value)) = reader.field(&go_name(field))? {
            if number == 1 {
                self.item(field, value_type, wire_value, &mut list)?;
            }
        }
        Ok(Value::Array(list))
    }

    /// Decodes a value that is not a list or map; null where JSON has null. `old` is the earlier value of the field.
    fn value(
        &mut self,
        field: &Field,
        value_type: &ValueType,
        wire_value: WireValue<'_>,
        old: Option<Value>,
    ) -> Result<Value, DecodeError> {
        Ok(match (value_type, wire_value) {
            (ValueType::Bool, WireValue::Varint(bits)) => Value::Bool(bits != 0),
            #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
            (ValueType::Int32, WireValue::Varint(bits)) => (bits as i32).into(),
            (ValueType::Int64, WireValue::Varint(bits)) => bits.cast_signed().into(),
            (ValueType::Float64, WireValue::Fixed64(bits)) => {
                let number = f64::from_bits(bits);
                if !number.is_finite() {
                    return Err(DecodeError(format!("json: unsupported value: {number}")));
                }
                float(number)
            }
            (ValueType::String, WireValue::Bytes(bytes)) => Value::String(lossy_string(bytes)),
            (ValueType::Bytes, WireValue::Bytes(bytes)) => custom_types::base64_of(bytes),
            (ValueType::Quantity, WireValue::Bytes(bytes)) => custom_types::read_quantity(bytes)?,
            (ValueType::IntOrString, WireValue::Bytes(bytes)) => {
                custom_types::read_int_or_string(bytes)?
            }
            (ValueType::Time, WireValue::Bytes(bytes)) => custom_types::read_time(bytes)?,
            (ValueType::MicroTime, WireValue::Bytes(bytes)) => {
                custom_types::read_micro_time(bytes)?
            }
            (ValueType::Any, WireValue::Bytes(bytes)) => custom_types::read_any(bytes, self.depth)?,
            (ValueType::Object(id), WireValue::Bytes(bytes)) => {
                let mut object = match old {
                    Some(Value::Object(object)) => object,
                    _ => Object::new(),
                };
                self.object(*id, bytes, &mut object)?;
                Value::Object(object)
            }
            (
                ValueType::SchemaOrBool(_)
                | ValueType::SchemaOrArray(_)
                | ValueType::SchemaOrStringArray(_),
                WireValue::Bytes(bytes),
            ) => self.schema_or_alternative(value_type, bytes)?,
            _ => return Err(wrong_wire_type(wire_value, &go_name(field))),
        })
    }

    /// `JSONSchemaPropsOrBool` and the like.
    fn schema_or_alternative(
        &mut self,
        value_type: &ValueType,
        bytes: &[u8],
    ) -> Result<Value, DecodeError> {
        let (schema_number, other_number) = custom_types::schema_or_alternative_numbers(value_type);
        let mut schema = None;
        let mut allows = false;
        let mut list = Vec::new();
        let mut reader = WireReader::new(bytes);
        while let Some((number, wire_value)) = reader.field("JSONSchemaProps")? {
            match (value_type, wire_value) {
                (
                    ValueType::SchemaOrBool(id)
                    | ValueType::SchemaOrArray(id)
                    | ValueType::SchemaOrStringArray(id),
                    WireValue::Bytes(bytes),
                ) if number == schema_number => {
                    let mut object = schema.take().unwrap_or_default();
                    self.object(*id, bytes, &mut object)?;
                    schema = Some(object);
                }
                (ValueType::SchemaOrBool(_), WireValue::Varint(bits)) if number == other_number => {
                    allows = bits != 0;
                }
                (ValueType::SchemaOrArray(id), WireValue::Bytes(bytes))
                    if number == other_number =>
                {
                    let mut object = Object::new();
                    self.with_deeper_nesting(|decoder| decoder.object(*id, bytes, &mut object))?;
                    list.push(Value::Object(object));
                }
                (ValueType::SchemaOrStringArray(_), WireValue::Bytes(bytes))
                    if number == other_number =>
                {
                    list.push(Value::String(lossy_string(bytes)));
                }
                _ if number == schema_number => return Err(wrong_wire_type(wire_value, "Schema")),
                _ => {}
            }
        }
        Ok(match (value_type, schema) {
            (ValueType::SchemaOrBool(_), None) => Value::Bool(allows),
            (_, _) if !list.is_empty() => Value::Array(list),
            (_, Some(schema)) => Value::Object(schema),
            (_, None) => Value::Null,
        })
    }
}

/// Approximates the Go name of a field, which is not in the schema table.
fn go_name(field: &Field) -> String {
    let mut letters = field.name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Whether Go does not distinguish the value from an absent one.
fn is_zero(value_type: &ValueType, value: &Value) -> bool {
    match (value_type, value) {
        (ValueType::Object(_), Value::Object(object)) => object.is_empty(),
        (
            ValueType::String
            | ValueType::Bool
            | ValueType::Int32
            | ValueType::Int64
            | ValueType::Float64,
            value,
        ) => *value == zero(value_type),
        (ValueType::Quantity, Value::String(lossy_string)) => lossy_string == "0",
        (ValueType::IntOrString, Value::Number(number)) => number.as_i64() == Some(0),
        _ => false,
    }
}
