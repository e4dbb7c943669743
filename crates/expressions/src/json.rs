//! Values from JSON, and back.

use crate::value::{Key, List, Map, Value};
use serde_json::{Map as JsonObject, Number, Value as Json};
use std::sync::Arc;

/// A value as JSON has it: whole numbers become ints, others doubles.
pub(crate) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => from_number(number),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(from_json).collect::<List>())),
        Json::Object(fields) => {
            let entry = |(name, value): (&String, &Json)| {
                (Key::String(name.as_str().into()), from_json(value))
            };
            Value::Map(Arc::new(fields.iter().map(entry).collect::<Map>()))
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

/// Why a value has no form in JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value of type {0} has no form in JSON")]
pub struct NoJson(String);

impl Value {
    /// The value as JSON, as patches and apply configurations need it. An object becomes an object; of a patch
    /// operation see [`crate::Patch`].
    pub fn to_json(&self) -> Result<Json, NoJson> {
        Ok(match self {
            Value::Null => Json::Null,
            Value::Bool(bool) => Json::Bool(*bool),
            Value::Int(int) => Json::from(*int),
            Value::Uint(uint) => Json::from(*uint),
            Value::Double(double) => Number::from_f64(*double)
                .map(Json::Number)
                .ok_or_else(|| NoJson("double".to_owned()))?,
            Value::String(text) => Json::from(&**text),
            Value::Bytes(bytes) => Json::from(crate::library::text::base64(bytes)),
            Value::Timestamp(seconds, nanos) => {
                Json::from(crate::library::time::format_timestamp(*seconds, *nanos))
            }
            Value::Duration(nanos) => Json::from(crate::library::time::format_duration(*nanos)),
            Value::List(list) => {
                let items: Result<Vec<Json>, NoJson> =
                    list.items().iter().map(Value::to_json).collect();
                Json::Array(items?)
            }
            Value::Map(map) => {
                let mut object = JsonObject::new();
                for (key, value) in map.entries() {
                    let Key::String(name) = key else {
                        return Err(NoJson(format!(
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
            _ => return Err(NoJson(self.type_name().to_owned())),
        })
    }
}
