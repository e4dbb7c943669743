//! YAML as upstream reads it: the first document becomes JSON, by the rules of YAML 1.1 for plain values.
//!
//! The tree is built without recursion, and what aliases stand for is counted: no document grows beyond bounds.

mod plain;
mod tree;

use serde_json::Value;
use serde_saphyr::granit_parser::{Event, Parser};

use super::DecodeError;
use tree::Tree;

/// The value of a document, of which the last counts where a key is there twice. In a strict reading such keys
/// are reported as upstream does.
pub(super) fn read(bytes: &[u8], strict: bool) -> Result<(Value, Option<String>), DecodeError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| DecodeError("yaml: invalid leading UTF-8 octet".to_owned()))?;
    let mut tree = Tree::default();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| {
            // Upstream names no line where it is the first.
            match error.marker().line() {
                0 | 1 => DecodeError(format!("yaml: {}", error.kind())),
                line => DecodeError(format!("yaml: line {line}: {}", error.kind())),
            }
        })?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        tree.add(event, span.start.line()).map_err(DecodeError)?;
    }
    let (value, duplicates) = tree.finish();
    let problem = (strict && !duplicates.is_empty())
        .then(|| format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  ")));
    Ok((value, problem))
}
