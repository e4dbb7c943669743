//! Decodes objects by their schema, with upstream's strictness and error messages.
//!
//! Entry points: [`decode_json`], [`decode_yaml`], [`decode_value`]. There is one decoder, for JSON; YAML and decoded
//! values are converted to JSON first, as upstream does, so all three behave alike.

mod aliases;
mod base64;
mod decoded_field_set;
mod json_decoder;
mod path;
mod quantities;
mod scalars;
mod times;
mod untyped;
mod yaml;

use serde_json::Value;

use crate::json;
use crate::{Object, Table, TypeId};
use json_decoder::{FatalDecodeError, JsonDecoder};

pub use aliases::AliasResolver;

pub(crate) use quantities::{canonical_quantity, is_plainly_canonical_quantity};
pub(crate) use scalars::{float, zero};
pub(crate) use times::{canonical_micro_time, canonical_time, is_plainly_canonical_time};

/// Maximum nesting depth of decoded values. Stored objects must stay readable: serde_json rejects 128 levels, and
/// lists, reviews and managed fields add a few levels around an object.
pub const MAX_DEPTH: usize = 100;

#[derive(Debug, Clone, Copy)]
pub struct DecodeOptions {
    /// Report unknown and duplicate fields.
    pub strict: bool,
    /// The input is a top-level object, whose `kind` and `apiVersion` upstream decodes first.
    pub top_level: bool,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        DecodeOptions {
            strict: true,
            top_level: true,
        }
    }
}

/// A decoded object, with its problems and warnings for the client.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeOutput {
    /// The object without unknown fields, and without nulls where Go has zero values.
    pub object: Object,
    /// Unknown and duplicate fields, in upstream's wording and order. The caller warns about or rejects them.
    pub problems: Vec<String>,
    /// Unknown fields in and below types that reject them ([`crate::ObjectType::reject_unknown_fields`]), in the same
    /// wording. The caller rejects those of requests.
    pub rejected: Vec<String>,
    /// Fields sent under an alias: `webhooks[0].exclusionRules: stored as excludeResourceRules`.
    pub alias_warnings: Vec<String>,
}

/// Why the input could not be decoded, with upstream's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

pub fn decode_json(
    table: &Table,
    type_id: TypeId,
    bytes: &[u8],
    options: DecodeOptions,
) -> Result<DecodeOutput, DecodeError> {
    let mut decoder = JsonDecoder::new(table, bytes, options);
    let result = decoder.document(type_id);
    finish(decoder, result, bytes, options)
}

/// Checks that the bytes are valid JSON; the error is that of Go's `encoding/json`.
pub fn check_json(bytes: &[u8]) -> Result<(), DecodeError> {
    json::check(bytes).map_err(DecodeError)
}

/// Decodes an untyped object, such as a patch; only duplicate fields are reported.
pub fn decode_untyped(bytes: &[u8], strict: bool) -> Result<DecodeOutput, DecodeError> {
    let options = DecodeOptions {
        strict,
        top_level: false,
    };
    let table = Table::default();
    let mut decoder = JsonDecoder::new(&table, bytes, options);
    let result = decoder.untyped_document();
    finish(decoder, result, bytes, options)
}

/// Decodes an untyped value nested at `depth` in an object.
pub(crate) fn decode_untyped_value(bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let options = DecodeOptions {
        strict: false,
        top_level: false,
    };
    let table = Table::default();
    let mut decoder = JsonDecoder::new(&table, bytes, options);
    decoder.decode_untyped_value(depth).map_err(|_| {
        DecodeError(match json::check(bytes) {
            Err(syntax_error) => syntax_error.to_string(),
            Ok(()) => format!("json: nested deeper than {MAX_DEPTH} levels"),
        })
    })
}

fn finish(
    mut decoder: JsonDecoder<'_, '_>,
    result: Result<Object, FatalDecodeError>,
    bytes: &[u8],
    options: DecodeOptions,
) -> Result<DecodeOutput, DecodeError> {
    let error = match result {
        Ok(object) => {
            return match decoder.take_first_error() {
                Some(error) => Err(DecodeError(error)),
                None => Ok(decoder.into_output(object)),
            };
        }
        Err(error) => error,
    };
    // Upstream reports malformed JSON before any other error.
    if let Err(syntax_error) = json::check(bytes) {
        let prefix = if options.top_level {
            KIND_ERROR_PREFIX
        } else {
            ""
        };
        return Err(DecodeError(format!("{prefix}{syntax_error}")));
    }
    Err(DecodeError(decoder.take_kind_error().unwrap_or(
        match error {
            FatalDecodeError::Rejected(error) => error,
            FatalDecodeError::TooDeep | FatalDecodeError::Malformed => {
                format!("json: nested deeper than {MAX_DEPTH} levels")
            }
        },
    )))
}

const KIND_ERROR_PREFIX: &str = "couldn't get version/kind; json parse error: ";

/// As [`decode_json`], for YAML of a single document.
pub fn decode_yaml(
    table: &Table,
    type_id: TypeId,
    bytes: &[u8],
    options: DecodeOptions,
) -> Result<DecodeOutput, DecodeError> {
    let (value, duplicate) = yaml::parse(bytes, options.strict)?;
    let mut decoded = decode_json(table, type_id, &to_json(&value)?, options)?;
    if let Some(duplicate) = duplicate {
        decoded.problems.insert(0, duplicate);
    }
    Ok(decoded)
}

/// Parses a YAML document into an untyped value.
pub fn read_yaml(bytes: &[u8]) -> Result<Value, DecodeError> {
    yaml::parse(bytes, false).map(|(value, _)| value)
}

/// Serializes a value as a YAML document.
pub fn write_yaml(value: &Value) -> Result<String, DecodeError> {
    serde_saphyr::to_string(value).map_err(|error| DecodeError(format!("yaml: {error}")))
}

/// As [`decode_json`], for an already parsed value, such as the result of a patch.
pub fn decode_value(
    table: &Table,
    type_id: TypeId,
    value: &Value,
    options: DecodeOptions,
) -> Result<DecodeOutput, DecodeError> {
    decode_json(table, type_id, &to_json(value)?, options)
}

fn to_json(value: &Value) -> Result<Vec<u8>, DecodeError> {
    serde_json::to_vec(value).map_err(|error| DecodeError(error.to_string()))
}

#[cfg(test)]
mod tests;
