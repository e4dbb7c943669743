//! From an object to the wire.

use rhumb_meta::Timestamp;
use serde_json::Value;

use super::envelope::Envelope;
use super::message::{Content, Message};
use super::special;
use super::wire::Backward;
use crate::{Field, Object, Shape, Table, Type, TypeId};

/// Why an object has no protobuf form: a value is not what its schema says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} cannot be written as protobuf: {problem}")]
pub struct EncodeError {
    field: Box<str>,
    problem: Box<str>,
}

type Written = Result<(), EncodeError>;

/// The message of an object that has the form of `conform`.
pub fn encode(table: &Table, of: TypeId, object: &Object) -> Result<Vec<u8>, EncodeError> {
    let mut out = Backward::default();
    Writer { table }.object(&mut out, of, object)?;
    Ok(out.into_bytes())
}

/// An object with its envelope, of the type that the object itself names.
pub fn seal(table: &Table, of: TypeId, object: &Object) -> Result<Vec<u8>, EncodeError> {
    let text = |name: &str| {
        let text = object.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let envelope = Envelope {
        api_version: text("apiVersion"),
        kind: text("kind"),
        raw: &encode(table, of, object)?,
    };
    Ok(envelope.seal())
}

/// The beginning of every list: its metadata.
pub fn list_head(table: &Table, metadata: &Object) -> Result<Vec<u8>, EncodeError> {
    let mut out = Backward::default();
    if let Some(of) = table.named("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta") {
        out.nested(1, |out| Writer { table }.object(out, of, metadata))?;
    }
    Ok(out.into_bytes())
}

/// An item of a list, as it follows the head.
pub fn list_item(table: &Table, of: TypeId, item: &Object) -> Result<Vec<u8>, EncodeError> {
    let mut out = Backward::default();
    out.nested(2, |out| Writer { table }.object(out, of, item))?;
    Ok(out.into_bytes())
}

/// Everything is written backwards: the last field of a message first, the last item of a list first.
struct Writer<'t> {
    table: &'t Table,
}

impl Writer<'_> {
    fn object(&self, out: &mut Backward, id: TypeId, object: &Object) -> Written {
        let (of, message) = (self.table.get(id), self.table.message(id));
        self.message(out, of, message, object)
    }

    fn message(
        &self,
        out: &mut Backward,
        of: &Type,
        message: &Message,
        object: &Object,
    ) -> Written {
        for part in message.parts().rev() {
            match &part.content {
                Content::Field(at) => {
                    let field = &of.fields[*at];
                    let value = object.get(&*field.name).filter(|value| !value.is_null());
                    self.field(out, field, value)?;
                }
                Content::Embedded(inner) => {
                    out.nested(part.number, |out| self.message(out, of, inner, object))?;
                }
            }
        }
        Ok(())
    }

    fn field(&self, out: &mut Backward, field: &Field, value: Option<&Value>) -> Written {
        let number = field.number;
        match (&field.shape, value) {
            (Shape::List(_) | Shape::Map(_), None) => Ok(()),
            (_, None) if field.pointer => Ok(()),
            (Shape::List(items), Some(Value::Array(list))) if field.is_list_message() => {
                self.list_message(out, field, number, &items.shape, list)
            }
            (Shape::List(items), Some(Value::Array(list))) => list
                .iter()
                .rev()
                .try_for_each(|item| self.value(out, field, number, &items.shape, present(item))),
            (Shape::Map(values), Some(Value::Object(map))) => {
                map.iter().rev().try_for_each(|(key, value)| {
                    out.nested(number, |out| {
                        self.map_value(out, field, values, present(value))?;
                        out.bytes(1, key.as_bytes());
                        Ok(())
                    })
                })
            }
            (shape, value) => self.value(out, field, number, shape, value),
        }
    }

    fn map_value(
        &self,
        out: &mut Backward,
        field: &Field,
        shape: &Shape,
        value: Option<&Value>,
    ) -> Written {
        match (shape, value) {
            // A list that is the value of a map is a message of its own.
            (Shape::List(items), Some(Value::Array(list))) => {
                self.list_message(out, field, 2, &items.shape, list)
            }
            // Go's zero value is nil, which is not written.
            (Shape::List(_), None) => Ok(()),
            (shape, value) => self.value(out, field, 2, shape, value),
        }
    }

    fn list_message(
        &self,
        out: &mut Backward,
        field: &Field,
        number: u32,
        shape: &Shape,
        list: &[Value],
    ) -> Written {
        out.nested(number, |out| {
            list.iter()
                .rev()
                .try_for_each(|item| self.value(out, field, 1, shape, present(item)))
        })
    }

    /// One value; `None` is Go's zero value.
    fn value(
        &self,
        out: &mut Backward,
        field: &Field,
        number: u32,
        shape: &Shape,
        value: Option<&Value>,
    ) -> Written {
        match (shape, value) {
            (Shape::String, None) => out.bytes(number, b""),
            (Shape::String, Some(Value::String(text))) => out.bytes(number, text.as_bytes()),
            (Shape::Bool | Shape::Int32 | Shape::Int64, None) => out.varint(number, 0),
            (Shape::Bool, Some(Value::Bool(value))) => out.varint(number, u64::from(*value)),
            (Shape::Int32 | Shape::Int64, Some(Value::Number(value))) => {
                let value = value.as_i64().ok_or_else(|| misfit(field, "a number"))?;
                out.varint(number, value.cast_unsigned());
            }
            (Shape::Float64, None) => out.fixed64(number, 0),
            (Shape::Float64, Some(Value::Number(value))) => {
                let value = value.as_f64().ok_or_else(|| misfit(field, "a number"))?;
                out.fixed64(number, value.to_bits());
            }
            // Go's zero value is nil, which is not written.
            (Shape::Bytes, None) => {}
            (Shape::Bytes, Some(Value::String(text))) => {
                let bytes = special::from_base64(text)
                    .map_err(|error| misfit(field, &error.to_string()))?;
                out.bytes(number, &bytes);
            }
            (Shape::Quantity, None) => self.wrapped(out, number, b"0")?,
            (Shape::Quantity, Some(Value::String(text))) => {
                self.wrapped(out, number, text.as_bytes())?;
            }
            (Shape::IntOrString, value) => int_or_string(out, field, number, value)?,
            (Shape::Time | Shape::MicroTime, value) => time(out, field, number, shape, value)?,
            (Shape::Any, None) => out.nested(number, |_| Ok(()))?,
            (Shape::Any, Some(value)) => {
                self.wrapped(out, number, value.to_string().as_bytes())?;
            }
            (Shape::Object(id), None) => {
                out.nested(number, |out| self.object(out, *id, &Object::new()))?;
            }
            (Shape::Object(id), Some(Value::Object(object))) => {
                out.nested(number, |out| self.object(out, *id, object))?;
            }
            (Shape::OrBool(id) | Shape::OrList(id) | Shape::OrStrings(id), value) => {
                out.nested(number, |out| {
                    self.alternatives(out, field, shape, *id, value)
                })?;
            }
            _ => return Err(misfit(field, "a value of another type")),
        }
        Ok(())
    }

    /// A message of one field that holds the bytes.
    fn wrapped(&self, out: &mut Backward, number: u32, bytes: &[u8]) -> Written {
        out.nested(number, |out| {
            out.bytes(1, bytes);
            Ok(())
        })
    }

    /// A JSON schema, or what stands for one. That a boolean allows is also written beside a schema.
    fn alternatives(
        &self,
        out: &mut Backward,
        field: &Field,
        shape: &Shape,
        id: TypeId,
        value: Option<&Value>,
    ) -> Written {
        let (schema_number, other_number) = special::alternative_numbers(shape);
        let is_bool = matches!(shape, Shape::OrBool(_));
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
                let item_shape = match shape {
                    Shape::OrList(id) => Shape::Object(*id),
                    _ => Shape::String,
                };
                for item in list.iter().rev() {
                    self.value(out, field, other_number, &item_shape, present(item))?;
                }
            }
            Some(_) => return Err(misfit(field, "neither a schema nor what stands for one")),
        }
        Ok(())
    }
}

/// In a list or map, null is the zero value.
fn present(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}

fn misfit(field: &Field, problem: &str) -> EncodeError {
    EncodeError {
        field: field.name.clone(),
        problem: problem.into(),
    }
}

fn int_or_string(out: &mut Backward, field: &Field, number: u32, value: Option<&Value>) -> Written {
    let (kind, integer, text) = match value {
        None => (0, 0, ""),
        Some(Value::String(text)) => (1, 0, text.as_str()),
        Some(Value::Number(integer)) => {
            let integer = integer.as_i64();
            (0, integer.ok_or_else(|| misfit(field, "a number"))?, "")
        }
        Some(_) => return Err(misfit(field, "neither a number nor a string")),
    };
    out.nested(number, |out| {
        out.bytes(3, text.as_bytes());
        out.varint(2, integer.cast_unsigned());
        out.varint(1, kind);
        Ok(())
    })
}

fn time(
    out: &mut Backward,
    field: &Field,
    number: u32,
    shape: &Shape,
    value: Option<&Value>,
) -> Written {
    const NANOS_PER_MICRO: u32 = 1000;
    let time = match value {
        None => return out.nested(number, |_| Ok(())),
        Some(Value::String(text)) => text
            .parse::<Timestamp>()
            .map_err(|error| misfit(field, &error.to_string()))?,
        Some(_) => return Err(misfit(field, "not a time")),
    };
    let nanos = match shape {
        Shape::MicroTime => time.subsec_nanos() / NANOS_PER_MICRO * NANOS_PER_MICRO,
        _ => 0,
    };
    out.nested(number, |out| {
        out.varint(2, u64::from(nanos));
        out.varint(1, time.unix_seconds().cast_unsigned());
        Ok(())
    })
}
