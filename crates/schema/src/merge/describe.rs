//! Formats values as Go's `fmt` does, for error messages.

use rhumb_meta::gotext;
use serde_json::Value;

use crate::Object;

pub(super) const GO_OBJECT: &str = "map[string]interface {}";
pub(super) const GO_LIST: &str = "[]interface {}";

/// Formats a value with `%v`.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            None => number.as_f64().map(gotext::float).unwrap_or_default(),
        },
        Value::String(text) => text.clone(),
        Value::Array(items) => list(items),
        Value::Object(value) => object(value),
    }
}

pub(super) fn list(items: &[Value]) -> String {
    let items: Vec<String> = items.iter().map(describe).collect();
    format!("[{}]", items.join(" "))
}

pub(super) fn object(object: &Object) -> String {
    let entries: Vec<String> = object
        .iter()
        .map(|(key, value)| format!("{key}:{}", describe(value)))
        .collect();
    format!("map[{}]", entries.join(" "))
}

/// Formats the value of a directive with `%s`.
pub(super) fn directive_text(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => {
            format!("%!s({}={})", go_type_of(value), describe(value))
        }
        other => describe(other),
    }
}

pub(super) fn go_type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => GO_LIST,
        Value::Object(_) => GO_OBJECT,
    }
}
