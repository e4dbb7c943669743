//! Encodes objects as protobuf messages.

use rhumb_meta::Timestamp;
use serde_json::Value;

use super::custom_types;
use super::envelope::UnknownEnvelope;
use super::message_layout::{LayoutContent, MessageLayout};
use super::wire::ReverseWriter;
use crate::{Field, Object, ObjectType, Table, TypeId, ValueType};

/// Why an object could not be encoded as protobuf: a value does not match its schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} cannot be written as protobuf: {problem}")]
pub struct EncodeError {
    field: Box<str>,
    problem: Box<str>,
}

type EncodeResult = Result<(), EncodeError>;

/// Encodes an object in canonical form (see [`crate::canonicalize`]).
pub fn encode(table: &Table, type_id: TypeId, object: &Object) -> Result<Vec<u8>, EncodeError> {
    let mut out = ReverseWriter::default();
    ProtobufEncoder { table }.object(&mut out, type_id, object)?;
    Ok(out.into_bytes())
}

/// Encodes an object in an envelope with the `apiVersion` and `kind` of the object.
pub fn encode_with_envelope(
    table: &Table,
    type_id: TypeId,
    object: &Object,
) -> Result<Vec<u8>, EncodeError> {
    let text = |name: &str| {
        let text = object.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let envelope = UnknownEnvelope {
        api_version: text("apiVersion"),
        kind: text("kind"),
        raw: &encode(table, type_id, object)?,
    };
    Ok(envelope.encode())
}

/// Encodes the metadata of a list, with which the message of a list starts.
pub fn encode_list_metadata(table: &Table, metadata: &Object) -> Result<Vec<u8>, EncodeError> {
    let mut out = ReverseWriter::default();
    if let Some(type_id) = table.type_id("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta") {
        out.nested(1, |out| {
            ProtobufEncoder { table }.object(out, type_id, metadata)
        })?;
    }
    Ok(out.into_bytes())
}

/// Encodes an item of a list, to be appended to the metadata.
pub fn encode_list_item(
    table: &Table,
    type_id: TypeId,
    item: &Object,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = ReverseWriter::default();
    out.nested(2, |out| {
        ProtobufEncoder { table }.object(out, type_id, item)
    })?;
    Ok(out.into_bytes())
}

/// Encodes in reverse: the last field of a message and the last item of a list first.
struct ProtobufEncoder<'t> {
    table: &'t Table,
}

impl ProtobufEncoder<'_> {
    fn object(&self, out: &mut ReverseWriter, id: TypeId, object: &Object) -> EncodeResult {
        let (type_id, message) = (self.table.get(id), self.table.message(id));
        self.message(out, type_id, message, object)
    }

    fn message(
        &self,
        out: &mut ReverseWriter,
        object_type: &ObjectType,
        message: &MessageLayout,
        object: &Object,
    ) -> EncodeResult {
        for layout_field in message.fields().rev() {
            match &layout_field.content {
                LayoutContent::Field(position) => {
                    let field = &object_type.fields[*position];
                    let value = object.get(&*field.name).filter(|value| !value.is_null());
                    self.field(out, field, value)?;
                }
                LayoutContent::Embedded(inner) => {
                    out.nested(layout_field.number, |out| {
                        self.message(out, object_type, inner, object)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn field(&self, out: &mut ReverseWriter, field: &Field, value: Option<&Value>) -> EncodeResult {
        let number = field.number;
        match (&field.value_type, value) {
            (ValueType::List(_) | ValueType::Map(_), None) => Ok(()),
            (_, None) if field.pointer => Ok(()),
            (ValueType::List(list_schema), Some(Value::Array(list))) if field.is_list_message() => {
                self.list_message(out, field, number, &list_schema.item_type, list)
            }
            (ValueType::List(list_schema), Some(Value::Array(list))) => {
                list.iter().rev().try_for_each(|item| {
                    self.value(out, field, number, &list_schema.item_type, non_null(item))
                })
            }
            (ValueType::Map(values), Some(Value::Object(map))) => {
                map.iter().rev().try_for_each(|(key, value)| {
                    out.nested(number, |out| {
                        self.map_value(out, field, values, non_null(value))?;
                        out.bytes(1, key.as_bytes());
                        Ok(())
                    })
                })
            }
            (value_type, value) => self.value(out, field, number, value_type, value),
        }
    }

    fn map_value(
        &self,
        out: &mut ReverseWriter,
        field: &Field,
        value_type: &ValueType,
        value: Option<&Value>,
    ) -> EncodeResult {
        match (value_type, value) {
            // A list value of a map is a separate message.
            (ValueType::List(list_schema), Some(Value::Array(list))) => {
                self.list_message(out, field, 2, &list_schema.item_type, list)
            }
            // Go's zero value is nil, which is not written.
            (ValueType::List(_), None) => Ok(()),
            (value_type, value) => self.value(out, field, 2, value_type, value),
        }
    }

    fn list_message(
        &self,
        out: &mut ReverseWriter,
        field: &Field,
        number: u32,
        value_type: &ValueType,
        list: &[Value],
    ) -> EncodeResult {
        out.nested(number, |out| {
            list.iter()
                .rev()
                .try_for_each(|item| self.value(out, field, 1, value_type, non_null(item)))
        })
    }

    /// Encodes one value; `None` is Go's zero value.
    fn value(
        &self,
        out: &mut ReverseWriter,
        field: &Field,
        number: u32,
        value_type: &ValueType,
        value: Option<&Value>,
    ) -> EncodeResult {
        match (value_type, value) {
            (ValueType::String, None) => out.bytes(number, b""),
            (ValueType::String, Some(Value::String(text))) => out.bytes(number, text.as_bytes()),
            (ValueType::Bool | ValueType::Int32 | ValueType::Int64, None) => out.varint(number, 0),
            (ValueType::Bool, Some(Value::Bool(value))) => out.varint(number, u64::from(*value)),
            (ValueType::Int32 | ValueType::Int64, Some(Value::Number(value))) => {
                let value = value
                    .as_i64()
                    .ok_or_else(|| encode_error(field, "a number"))?;
                out.varint(number, value.cast_unsigned());
            }
            (ValueType::Float64, None) => out.fixed64(number, 0),
            (ValueType::Float64, Some(Value::Number(value))) => {
                let value = value
                    .as_f64()
                    .ok_or_else(|| encode_error(field, "a number"))?;
                out.fixed64(number, value.to_bits());
            }
            // Go's zero value is nil, which is not written.
            (ValueType::Bytes, None) => {}
            (ValueType::Bytes, Some(Value::String(text))) => {
                let bytes = custom_types::from_base64(text)
                    .map_err(|error| encode_error(field, &error.to_string()))?;
                out.bytes(number, &bytes);
            }
            (ValueType::Quantity, None) => self.bytes_message(out, number, b"0")?,
            (ValueType::Quantity, Some(Value::String(text))) => {
                self.bytes_message(out, number, text.as_bytes())?;
            }
            (ValueType::IntOrString, value) => int_or_string(out, field, number, value)?,
            (ValueType::Time | ValueType::MicroTime, value) => {
                time(out, field, number, value_type, value)?;
            }
            (ValueType::Any, None) => out.nested(number, |_| Ok(()))?,
            (ValueType::Any, Some(value)) => {
                self.bytes_message(out, number, value.to_string().as_bytes())?;
            }
            (ValueType::Object(id), None) => {
                out.nested(number, |out| self.object(out, *id, &Object::new()))?;
            }
            (ValueType::Object(id), Some(Value::Object(object))) => {
                out.nested(number, |out| self.object(out, *id, object))?;
            }
            (
                ValueType::SchemaOrBool(id)
                | ValueType::SchemaOrArray(id)
                | ValueType::SchemaOrStringArray(id),
                value,
            ) => {
                out.nested(number, |out| {
                    self.schema_or_alternative(out, field, value_type, *id, value)
                })?;
            }
            _ => return Err(encode_error(field, "a value of another type")),
        }
        Ok(())
    }

    /// Encodes a message whose only field contains the bytes.
    fn bytes_message(&self, out: &mut ReverseWriter, number: u32, bytes: &[u8]) -> EncodeResult {
        out.nested(number, |out| {
            out.bytes(1, bytes);
            Ok(())
        })
    }

    /// `JSONSchemaPropsOrBool` and the like. For a schema, upstream also writes the boolean.
    fn schema_or_alternative(
        &self,
        out: &mut ReverseWriter,
        field: &Field,
        value_type: &ValueType,
        id: TypeId,
        value: Option<&Value>,
    ) -> EncodeResult {
        let (schema_number, other_number) = custom_types::schema_or_alternative_numbers(value_type);
        let is_bool = matches!(value_type, ValueType::SchemaOrBool(_));
        match value {
            None if is_bool => out.varint(other_number, 0),
            None => {}
            Some(Value::Bool(allows)) if is_bool => {
                out.varint(other_number, u64::from(*allows));
            }
            Some(Value::Object(schema)) => {
                out.nested(schema_number, |out| self.object(out, id, schema))?;
                if is_bool {
                    out.varint(other_number, 1);
                }
            }
            Some(Value::Array(list)) if !is_bool => {
                let item_type = match value_type {
                    ValueType::SchemaOrArray(id) => ValueType::Object(*id),
                    _ => ValueType::String,
                };
                for item in list.iter().rev() {
                    self.value(out, field, other_number, &item_type, non_null(item))?;
                }
            }
            Some(_) => {
                return Err(encode_error(
                    field,
                    "neither a schema nor what stands for one",
                ));
            }
        }
        Ok(())
    }
}

/// In a list or map, null is the zero value.
fn non_null(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}

fn encode_error(field: &Field, problem: &str) -> EncodeError {
    EncodeError {
        field: field.name.clone(),
        problem: problem.into(),
    }
}

fn int_or_string(
    out: &mut ReverseWriter,
    field: &Field,
    number: u32,
    value: Option<&Value>,
) -> EncodeResult {
    let (kind, integer, text) = match value {
        None => (0, 0, ""),
        Some(Value::String(text)) => (1, 0, text.as_str()),
        Some(Value::Number(integer)) => {
            let integer = integer.as_i64();
            (
                0,
                integer.ok_or_else(|| encode_error(field, "a number"))?,
                "",
            )
        }
        Some(_) => return Err(encode_error(field, "neither a number nor a string")),
    };
    out.nested(number, |out| {
        out.bytes(3, text.as_bytes());
        out.varint(2, integer.cast_unsigned());
        out.varint(1, kind);
        Ok(())
    })
}

fn time(
    out: &mut ReverseWriter,
    field: &Field,
    number: u32,
    value_type: &ValueType,
    value: Option<&Value>,
) -> EncodeResult {
    const NANOS_PER_MICRO: u32 = 1000;
    let time = match value {
        None => return out.nested(number, |_| Ok(())),
        Some(Value::String(text)) => text
            .parse::<Timestamp>()
            .map_err(|error| encode_error(field, &error.to_string()))?,
        Some(_) => return Err(encode_error(field, "not a time")),
    };
    let nanos = match value_type {
        ValueType::MicroTime => time.subsec_nanos() / NANOS_PER_MICRO * NANOS_PER_MICRO,
        _ => 0,
    };
    out.nested(number, |out| {
        out.varint(2, u64::from(nanos));
        out.varint(1, time.unix_seconds().cast_unsigned());
        Ok(())
    })
}
