//! The spec of an object, which some writes keep as it is stored.

use rhumb_api::JsonObject;

pub const SPEC: &str = "spec";

/// Gives an object the spec of another one.
pub fn copy_spec(from: &JsonObject, to: &mut JsonObject) {
    if let Some(spec) = from.get(SPEC) {
        to.insert(SPEC.to_owned(), spec.clone());
    }
}
