//! Parses the first YAML document into JSON, with YAML 1.1 rules for plain scalars, as `sigs.k8s.io/yaml` does.
//!
//! Nesting needs no recursion, and nodes expanded from aliases are counted, which bounds the size of the result.

mod scalar;
mod value_builder;

use serde_json::Value;
use serde_saphyr::granit_parser::{Event, Parser};

use super::DecodeError;
use value_builder::YamlValueBuilder;

/// Parses a document. Of duplicate keys the last one wins; if `strict`, the second result is upstream's error about
/// them.
pub(super) fn parse(bytes: &[u8], strict: bool) -> Result<(Value, Option<String>), DecodeError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| DecodeError("yaml: invalid leading UTF-8 octet".to_owned()))?;
    let mut builder = YamlValueBuilder::default();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| {
            // Upstream omits the line number for the first line.
            match error.marker().line() {
                0 | 1 => DecodeError(format!("yaml: {}", error.kind())),
                line => DecodeError(format!("yaml: line {line}: {}", error.kind())),
            }
        })?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        builder.add(event, span.start.line()).map_err(DecodeError)?;
    }
    let (value, duplicates) = builder.finish();
    let problem = (strict && !duplicates.is_empty())
        .then(|| format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  ")));
    Ok((value, problem))
}
