//! Requests to and responses of the Go program.

use std::collections::BTreeMap;

use rhumb_meta::LabelSelector;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Directory of the Go program.
pub(crate) const SOURCE: &str = "apimachinery";

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct OracleRequest {
    pub(crate) op: &'static str,
    pub(crate) input: String,
    pub(crate) path: &'static str,
    pub(crate) operator: &'static str,
    pub(crate) values: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) options: LabelSelectorValidationOptions,
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
    pub(crate) bits: u64,
    pub(crate) status: StatusRequest,
}

impl OracleRequest {
    pub(crate) fn text(op: &'static str, input: impl Into<String>) -> Self {
        OracleRequest {
            op,
            input: input.into(),
            ..OracleRequest::default()
        }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct LabelSelectorValidationOptions {
    pub(crate) invalid_label_value: bool,
    pub(crate) unknown_operator: bool,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct StatusRequest {
    pub(crate) constructor: &'static str,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) message: String,
    pub(crate) retry: i32,
    pub(crate) code: i32,
    pub(crate) unexpected: bool,
    pub(crate) resource_version: u64,
    pub(crate) accepted: Vec<String>,
    pub(crate) errors: Vec<FieldErrorRequest>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct FieldErrorRequest {
    pub(crate) kind: &'static str,
    pub(crate) field: String,
    pub(crate) value: String,
    pub(crate) detail: String,
    pub(crate) number: usize,
    pub(crate) valid: Vec<String>,
}

/// Fields that do not apply to a request are empty on both sides.
#[derive(Debug, Default, PartialEq, Deserialize)]
pub(crate) struct OracleResponse {
    pub(crate) output: String,
    pub(crate) error: String,
    pub(crate) matches: bool,
    /// Whether a label selector has a value that is valid only in existing objects.
    pub(crate) has_invalid_label_value: bool,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) exact_matches: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) problems: BTreeMap<String, Option<Vec<String>>>,
    #[serde(deserialize_with = "null_is_empty")]
    pub(crate) errors: Vec<String>,
    pub(crate) status: Value,
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
