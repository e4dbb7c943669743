//! YAML as upstream reads it: numbers, booleans and octals of YAML 1.1, and a limit on everything.

use rhumb_meta::gotext;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error};

use super::{DecodeError, float};

/// The parser needs more of the stack for a level than the decoder.
const MAX_DEPTH: usize = 60;
/// How many nodes aliases may stand for, all together.
const MAX_ALIASED_NODES: usize = 100_000;
const MAX_NODES: usize = 1_000_000;
const MAX_ANCHORS: usize = 10_000;

/// The value of a document, of which the last counts where a key is there twice. In a strict reading the first
/// such key is reported as upstream does.
pub(super) fn read(bytes: &[u8], strict: bool) -> Result<(Value, Option<String>), DecodeError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| DecodeError("yaml: invalid leading UTF-8 octet".to_owned()))?;
    let mut value = parse(text, DuplicateKeyPolicy::LastWins).map_err(|error| explain(&error))?;
    write_whole_floats_as_integers(&mut value);
    let duplicate = match strict.then(|| parse(text, DuplicateKeyPolicy::Error)) {
        Some(Err(error)) => duplicate_key(&error),
        _ => None,
    };
    Ok((value, duplicate))
}

fn parse(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, Error> {
    let options = serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        strict_booleans: false,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_anchors: MAX_ANCHORS,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIASED_NODES,
        },
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Upstream prints what it has read as JSON, and Go prints 1000.0 as 1000.
fn write_whole_floats_as_integers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            *value = number.as_f64().map_or(Value::Null, float);
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole_floats_as_integers),
        Value::Object(object) => object.values_mut().for_each(write_whole_floats_as_integers),
        _ => {}
    }
}

fn explain(error: &Error) -> DecodeError {
    DecodeError(format!("yaml: {error}"))
}

fn duplicate_key(error: &Error) -> Option<String> {
    let Error::DuplicateMappingKey { key, location } = error else {
        return None;
    };
    let key = gotext::quote(key.as_deref().unwrap_or_default());
    let line = location.line();
    Some(format!(
        "yaml: unmarshal errors:\n  line {line}: key {key} already set in map"
    ))
}
