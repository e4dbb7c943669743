//! Conversion between JSON and CEL values.

use crate::value::{ListValue, MapKey, MapValue, Value};
use serde_json::{Map as JsonObject, Number, Value as Json};
use std::sync::Arc;

/// Integers become ints, other numbers doubles.
pub(crate) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => from_number(number),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => {
            Value::List(Arc::new(items.iter().map(from_json).collect::<ListValue>()))
        }
        Json::Object(fields) => {
            let entry = |(name, value): (&String, &Json)| {
                (MapKey::String(name.as_str().into()), from_json(value))
            };
            Value::Map(Arc::new(fields.iter().map(entry).collect::<MapValue>()))
        }
    }
}

fn from_number(number: &Number) -> Value {
    match (number.as_i64(), number.as_f64()) {
        (Some(int), _) => Value::Int(int),
        (None, Some(double)) => Value::Double(double),
        (None, None) => Value::Null,
    }
}

/// A value cannot be converted to JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value of type {0} cannot be converted to JSON")]
pub struct JsonConversionError(String);

impl Value {
    /// The value as JSON, for apply configurations and the values of JSON patches. A [`crate::JsonPatchValue`] is not
    /// converted.
    pub fn to_json(&self) -> Result<Json, JsonConversionError> {
        Ok(match self {
            Value::Null => Json::Null,
            Value::Bool(bool) => Json::Bool(*bool),
            Value::Int(int) => Json::from(*int),
            Value::Uint(uint) => Json::from(*uint),
            Value::Double(double) => Number::from_f64(*double)
                .map(Json::Number)
                .ok_or_else(|| JsonConversionError("double".to_owned()))?,
            Value::String(text) => Json::from(&**text),
            Value::Bytes(bytes) => Json::from(crate::library::strings::base64(bytes)),
            Value::Timestamp(seconds, nanos) => {
                Json::from(crate::library::time::format_timestamp(*seconds, *nanos))
            }
            Value::Duration(nanos) => Json::from(crate::library::time::format_duration(*nanos)),
            Value::List(list) => {
                let items: Result<Vec<Json>, JsonConversionError> =
                    list.items().iter().map(Value::to_json).collect();
                Json::Array(items?)
            }
            Value::Map(map) => {
                let mut object = JsonObject::new();
                for (key, value) in map.entries() {
                    let MapKey::String(name) = key else {
                        return Err(JsonConversionError(format!(
                            "map with {} keys",
                            key.to_value().type_name()
                        )));
                    };
                    object.insert(name.to_string(), value.to_json()?);
                }
                Json::Object(object)
            }
            Value::Object(object) => {
                let mut fields = JsonObject::new();
                for (name, value) in &object.fields {
                    fields.insert(name.to_string(), value.to_json()?);
                }
                Json::Object(fields)
            }
            _ => return Err(JsonConversionError(self.type_name().to_owned())),
        })
    }
}
