//! Reading objects by their schema, with upstream's opinion about everything that can be wrong with them.
//!
//! There is one decoder, for JSON. YAML and values become JSON first, as upstream has it, so that all three
//! are read alike.

mod base64;
mod quantities;
mod scalars;
mod spelling;
mod spot;
mod times;
mod walk;
mod yaml;

use serde_json::Value;

use crate::json;
use crate::{Object, Table, TypeId};
use walk::{Stop, Walk};

pub use spelling::Speller;

pub(crate) use quantities::{canonical_quantity, is_plainly_canonical};
pub(crate) use scalars::{float, zero};
pub(crate) use times::{canonical_micro_time, canonical_time, is_plainly_canonical_time};

/// How deep values may be nested that are kept. What was stored must be readable again: serde_json refuses 128
/// levels, and lists, reviews and managed fields wrap an object in a few of their own.
pub const MAX_DEPTH: usize = 100;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Look for unknown and duplicate fields.
    pub strict: bool,
    /// It is a whole object, of which upstream reads `kind` and `apiVersion` first.
    pub whole: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            strict: true,
            whole: true,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Without unknown fields, and without nulls where Go has none.
    pub object: Object,
    /// Unknown and duplicate fields, in upstream's words and order. What to do about them is the caller's choice.
    pub problems: Vec<String>,
    /// Fields that came by another name than they have: `webhooks[0].exclusionRules: stored as excludeResourceRules`.
    pub respelled: Vec<String>,
}

/// Why something cannot be read, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

pub fn decode_json(
    table: &Table,
    of: TypeId,
    bytes: &[u8],
    options: Options,
) -> Result<Decoded, DecodeError> {
    let mut walk = Walk::new(table, bytes, options);
    let read = walk.document(of);
    finish(walk, read, bytes, options)
}

/// Whether a text is JSON, in Go's words if it is not.
pub fn check_json(bytes: &[u8]) -> Result<(), DecodeError> {
    json::check(bytes).map_err(DecodeError)
}

/// Reads an object of no type, such as a patch; duplicate fields are the only problem it can have.
pub fn decode_any(bytes: &[u8], strict: bool) -> Result<Decoded, DecodeError> {
    let options = Options {
        strict,
        whole: false,
    };
    let table = Table::default();
    let mut walk = Walk::new(&table, bytes, options);
    let read = walk.any_document();
    finish(walk, read, bytes, options)
}

/// A value of no type that stands so deep in an object.
pub(crate) fn any_value(bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let options = Options {
        strict: false,
        whole: false,
    };
    let table = Table::default();
    let mut walk = Walk::new(&table, bytes, options);
    walk.any_value(depth).map_err(|_| {
        DecodeError(match json::check(bytes) {
            Err(mistake) => mistake.to_string(),
            Ok(()) => format!("json: nested deeper than {MAX_DEPTH} levels"),
        })
    })
}

fn finish(
    mut walk: Walk<'_, '_>,
    read: Result<Object, Stop>,
    bytes: &[u8],
    options: Options,
) -> Result<Decoded, DecodeError> {
    let stop = match read {
        Ok(object) => {
            return match walk.first_error() {
                Some(error) => Err(DecodeError(error)),
                None => Ok(walk.decoded(object)),
            };
        }
        Err(stop) => stop,
    };
    // Upstream looks for malformed JSON before anything else.
    if let Err(mistake) = json::check(bytes) {
        let prefix = if options.whole { NO_KIND } else { "" };
        return Err(DecodeError(format!("{prefix}{mistake}")));
    }
    Err(DecodeError(walk.kind_error().unwrap_or(match stop {
        Stop::Refused(error) => error,
        Stop::TooDeep | Stop::Malformed => {
            format!("json: nested deeper than {MAX_DEPTH} levels")
        }
    })))
}

const NO_KIND: &str = "couldn't get version/kind; json parse error: ";

/// As [`decode_json`], for YAML of a single document.
pub fn decode_yaml(
    table: &Table,
    of: TypeId,
    bytes: &[u8],
    options: Options,
) -> Result<Decoded, DecodeError> {
    let (value, duplicate) = yaml::read(bytes, options.strict)?;
    let mut decoded = decode_json(table, of, &to_json(&value)?, options)?;
    if let Some(duplicate) = duplicate {
        decoded.problems.insert(0, duplicate);
    }
    Ok(decoded)
}

/// The value of a YAML document, whatever it is.
pub fn read_yaml(bytes: &[u8]) -> Result<Value, DecodeError> {
    yaml::read(bytes, false).map(|(value, _)| value)
}

/// A value as a YAML document.
pub fn write_yaml(value: &Value) -> Result<String, DecodeError> {
    serde_saphyr::to_string(value).map_err(|error| DecodeError(format!("yaml: {error}")))
}

/// As [`decode_json`], for what a patch made.
pub fn decode_value(
    table: &Table,
    of: TypeId,
    value: &Value,
    options: Options,
) -> Result<Decoded, DecodeError> {
    decode_json(table, of, &to_json(value)?, options)
}

fn to_json(value: &Value) -> Result<Vec<u8>, DecodeError> {
    serde_json::to_vec(value).map_err(|error| DecodeError(error.to_string()))
}

#[cfg(test)]
mod tests;
