//! Requests to and responses of the Go program.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Directory of the Go program.
pub(crate) const SOURCE: &str = "gotypes/oracle";

#[derive(Debug, Serialize)]
pub(crate) struct OracleRequest {
    pub(crate) op: &'static str,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) input: String,
    pub(crate) patch: String,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct OracleResponse {
    /// A JSON string; equality compares the parsed values.
    pub(crate) output: Value,
    pub(crate) error: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) problems: Vec<String>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl OracleResponse {
    pub(crate) fn object(mut output: Value, problems: Vec<String>) -> OracleResponse {
        print_whole_numbers_as_go(&mut output);
        OracleResponse {
            output,
            error: String::new(),
            problems,
        }
    }

    pub(crate) fn error(error: String) -> OracleResponse {
        OracleResponse {
            output: Value::Null,
            error,
            problems: Vec::new(),
        }
    }

    pub(crate) fn parsed(mut self) -> OracleResponse {
        if let Value::String(text) = &self.output {
            self.output = match text.as_str() {
                "" => Value::Null,
                text => serde_json::from_str(text).expect("Go prints JSON"),
            };
        }
        self
    }
}

/// Normalizes floats: Go prints 1.0 as 1.
fn print_whole_numbers_as_go(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            if let Some(whole) = text.strip_suffix(".0").and_then(|text| text.parse().ok()) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(print_whole_numbers_as_go),
        Value::Object(object) => object.values_mut().for_each(print_whole_numbers_as_go),
        _ => {}
    }
}
