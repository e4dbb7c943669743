//! From the wire to an object.

use std::collections::BTreeSet;

use serde_json::Value;

use super::envelope::wrong_wire_type;
use super::message::{Content, Message};
use super::special::{self, text};
use super::wire::{Raw, Reader};
use crate::decode::{float, zero};
use crate::{DecodeError, Decoded, Field, MAX_DEPTH, Object, Shape, Table, TypeId};

/// The object in the bytes of a message. Fields that the table does not know are skipped, as upstream does.
pub fn decode(table: &Table, of: TypeId, bytes: &[u8]) -> Result<Object, DecodeError> {
    let decoded = decode_strictly(table, of, bytes)?;
    Ok(decoded.object)
}

/// As [`decode`]; the problems are the fields that were skipped although something was in them. Those of zero were
/// not set: upstream's clients write most fields whether they are or not, those of releases long ago too.
pub fn decode_strictly(table: &Table, of: TypeId, bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut object = Object::new();
    let mut walk = Walk {
        table,
        depth: 0,
        unknown: BTreeSet::new(),
    };
    walk.object(of, bytes, &mut object)?;
    let problems = walk.unknown.into_iter().map(|(of, number)| {
        let go = &table.get(of).go;
        format!("unknown field number {number} of {go}")
    });
    Ok(Decoded {
        object,
        problems: problems.collect(),
        respelled: Vec::new(),
    })
}

/// How many problems are listed at most.
const UNKNOWN_MAX: usize = 100;

pub(super) struct Walk<'t> {
    table: &'t Table,
    depth: usize,
    /// Fields that were skipped, by type and number.
    unknown: BTreeSet<(TypeId, u32)>,
}

impl Walk<'_> {
    fn object(&mut self, id: TypeId, bytes: &[u8], object: &mut Object) -> Result<(), DecodeError> {
        let message = self.table.message(id);
        self.deeper(|walk| walk.message(id, message, bytes, object))
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.depth >= MAX_DEPTH {
            return Err(DecodeError(format!(
                "proto: nested deeper than {MAX_DEPTH} levels"
            )));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn message(
        &mut self,
        id: TypeId,
        message: &Message,
        bytes: &[u8],
        object: &mut Object,
    ) -> Result<(), DecodeError> {
        let of = self.table.get(id);
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.field(of.short_go())? {
            let Some(part) = message.part(number) else {
                if !raw.is_zero() && self.unknown.len() < UNKNOWN_MAX {
                    self.unknown.insert((id, number));
                }
                continue;
            };
            match &part.content {
                Content::Field(at) => self.field(&of.fields[*at], raw, object)?,
                Content::Embedded(inner) => match raw {
                    Raw::Bytes(bytes) => self.message(id, inner, bytes, object)?,
                    other => return Err(wrong_wire_type(other, of.short_go())),
                },
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Field,
        raw: Raw<'_>,
        object: &mut Object,
    ) -> Result<(), DecodeError> {
        match (&field.shape, raw) {
            (Shape::List(items), Raw::Bytes(bytes)) if field.is_list_message() => {
                let list = self.deeper(|walk| walk.list_message(field, &items.shape, bytes))?;
                object.insert((*field.name).to_owned(), list);
                Ok(())
            }
            (Shape::List(items), raw) => {
                let list = object
                    .entry(&*field.name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    self.deeper(|walk| walk.item(field, &items.shape, raw, list))?;
                    // No numbers at all may be packed.
                    if list.is_empty() {
                        object.remove(&*field.name);
                    }
                }
                Ok(())
            }
            (Shape::Map(values), raw) => {
                let map = object
                    .entry(&*field.name)
                    .or_insert_with(|| Value::Object(Object::new()));
                match map {
                    Value::Object(map) => {
                        self.deeper(|walk| walk.map_entry(field, values, raw, map))
                    }
                    _ => Ok(()),
                }
            }
            (shape, raw) => {
                let old = object.remove(&*field.name);
                let value = self.value(field, shape, raw, old)?;
                if !(value.is_null() || (!field.pointer && is_zero(shape, &value))) {
                    object.insert((*field.name).to_owned(), value);
                }
                Ok(())
            }
        }
    }

    /// One item of a list, or all of its numbers at once.
    fn item(
        &mut self,
        field: &Field,
        shape: &Shape,
        raw: Raw<'_>,
        list: &mut Vec<Value>,
    ) -> Result<(), DecodeError> {
        let packable = matches!(shape, Shape::Bool | Shape::Int32 | Shape::Int64);
        match raw {
            Raw::Bytes(bytes) if packable => {
                let mut reader = Reader::new(bytes);
                while !reader.is_empty() {
                    let number = Raw::Varint(reader.varint()?);
                    list.push(self.value(field, shape, number, None)?);
                }
            }
            raw => list.push(self.value(field, shape, raw, None)?),
        }
        Ok(())
    }

    fn map_entry(
        &mut self,
        field: &Field,
        shape: &Shape,
        raw: Raw<'_>,
        map: &mut Object,
    ) -> Result<(), DecodeError> {
        let Raw::Bytes(bytes) = raw else {
            return Err(wrong_wire_type(raw, &go_name(field)));
        };
        let mut key = String::new();
        let mut value = match shape {
            Shape::Bytes => Value::String(String::new()),
            Shape::List(_) => Value::Array(Vec::new()),
            shape => zero(shape),
        };
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.field(&go_name(field))? {
            match (number, raw) {
                (1, Raw::Bytes(bytes)) => key = text(bytes),
                (2, Raw::Bytes(bytes)) => {
                    if let Shape::List(items) = shape {
                        value =
                            self.deeper(|walk| walk.list_message(field, &items.shape, bytes))?;
                    } else {
                        value = self.value(field, shape, raw, None)?;
                    }
                }
                (2, raw) => value = self.value(field, shape, raw, None)?,
                _ => {}
            }
        }
        map.insert(key, value);
        Ok(())
    }

    /// A list that is a message of its own, as the value of a map is.
    fn list_message(
        &mut self,
        field: &Field,
        shape: &Shape,
        bytes: &[u8],
    ) -> Result<Value, DecodeError> {
        let mut list = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.field(&go_name(field))? {
            if number == 1 {
                self.item(field, shape, raw, &mut list)?;
            }
        }
        Ok(Value::Array(list))
    }

    /// A value that is not a list or map; null where JSON has null. `old` is what the same field had before.
    fn value(
        &mut self,
        field: &Field,
        shape: &Shape,
        raw: Raw<'_>,
        old: Option<Value>,
    ) -> Result<Value, DecodeError> {
        Ok(match (shape, raw) {
            (Shape::Bool, Raw::Varint(bits)) => Value::Bool(bits != 0),
            #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
            (Shape::Int32, Raw::Varint(bits)) => (bits as i32).into(),
            (Shape::Int64, Raw::Varint(bits)) => bits.cast_signed().into(),
            (Shape::Float64, Raw::Fixed64(bits)) => {
                let number = f64::from_bits(bits);
                if !number.is_finite() {
                    return Err(DecodeError(format!("json: unsupported value: {number}")));
                }
                float(number)
            }
            (Shape::String, Raw::Bytes(bytes)) => Value::String(text(bytes)),
            (Shape::Bytes, Raw::Bytes(bytes)) => special::base64_of(bytes),
            (Shape::Quantity, Raw::Bytes(bytes)) => special::read_quantity(bytes)?,
            (Shape::IntOrString, Raw::Bytes(bytes)) => special::read_int_or_string(bytes)?,
            (Shape::Time, Raw::Bytes(bytes)) => special::read_time(bytes)?,
            (Shape::MicroTime, Raw::Bytes(bytes)) => special::read_micro_time(bytes)?,
            (Shape::Any, Raw::Bytes(bytes)) => special::read_any(bytes, self.depth)?,
            (Shape::Object(id), Raw::Bytes(bytes)) => {
                let mut object = match old {
                    Some(Value::Object(object)) => object,
                    _ => Object::new(),
                };
                self.object(*id, bytes, &mut object)?;
                Value::Object(object)
            }
            (Shape::OrBool(_) | Shape::OrList(_) | Shape::OrStrings(_), Raw::Bytes(bytes)) => {
                self.alternatives(shape, bytes)?
            }
            _ => return Err(wrong_wire_type(raw, &go_name(field))),
        })
    }

    /// A JSON schema, or what stands for one.
    fn alternatives(&mut self, shape: &Shape, bytes: &[u8]) -> Result<Value, DecodeError> {
        let (schema_number, other_number) = special::alternative_numbers(shape);
        let mut schema = None;
        let mut allows = false;
        let mut list = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((number, raw)) = reader.field("JSONSchemaProps")? {
            match (shape, raw) {
                (
                    Shape::OrBool(id) | Shape::OrList(id) | Shape::OrStrings(id),
                    Raw::Bytes(bytes),
                ) if number == schema_number => {
                    let mut object = schema.take().unwrap_or_default();
                    self.object(*id, bytes, &mut object)?;
                    schema = Some(object);
                }
                (Shape::OrBool(_), Raw::Varint(bits)) if number == other_number => {
                    allows = bits != 0;
                }
                (Shape::OrList(id), Raw::Bytes(bytes)) if number == other_number => {
                    let mut object = Object::new();
                    self.deeper(|walk| walk.object(*id, bytes, &mut object))?;
                    list.push(Value::Object(object));
                }
                (Shape::OrStrings(_), Raw::Bytes(bytes)) if number == other_number => {
                    list.push(Value::String(text(bytes)));
                }
                _ if number == schema_number => return Err(wrong_wire_type(raw, "Schema")),
                _ => {}
            }
        }
        Ok(match (shape, schema) {
            (Shape::OrBool(_), None) => Value::Bool(allows),
            (_, _) if !list.is_empty() => Value::Array(list),
            (_, Some(schema)) => Value::Object(schema),
            (_, None) => Value::Null,
        })
    }
}

/// About what Go calls the field; the table does not know it.
fn go_name(field: &Field) -> String {
    let mut letters = field.name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Whether Go cannot tell it from an absent value.
fn is_zero(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Object(_), Value::Object(object)) => object.is_empty(),
        (Shape::String | Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float64, value) => {
            *value == zero(shape)
        }
        (Shape::Quantity, Value::String(text)) => text == "0",
        (Shape::IntOrString, Value::Number(number)) => number.as_i64() == Some(0),
        _ => false,
    }
}
