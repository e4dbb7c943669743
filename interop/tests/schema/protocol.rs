//! Questions and answers as they travel to the Go program and back.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Where the Go program is.
pub(crate) const SOURCE: &str = "gotypes/oracle";

#[derive(Debug, Serialize)]
pub(crate) struct Question {
    pub(crate) op: &'static str,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) input: String,
    pub(crate) patch: String,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Answer {
    /// JSON as a text; what it says once it is parsed.
    pub(crate) output: Value,
    pub(crate) error: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) problems: Vec<String>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Answer {
    pub(crate) fn object(mut output: Value, problems: Vec<String>) -> Answer {
        print_whole_numbers_as_go(&mut output);
        Answer {
            output,
            error: String::new(),
            problems,
        }
    }

    pub(crate) fn error(error: String) -> Answer {
        Answer {
            output: Value::Null,
            error,
            problems: Vec::new(),
        }
    }

    pub(crate) fn parsed(mut self) -> Answer {
        if let Value::String(text) = &self.output {
            self.output = match text.as_str() {
                "" => Value::Null,
                text => serde_json::from_str(text).expect("Go prints JSON"),
            };
        }
        self
    }
}

/// Go prints 1.0 as 1.
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
