//! Names and namespaces of new objects: `generateName`, and the namespace of the request path.

use rhumb_api::JsonObject;
use rhumb_meta::Status;

use super::RequestContext;
use crate::objects::{ObjectMetadata, ObjectMetadataMut};

/// How much of `generateName` is kept in a generated name.
const NAME_PREFIX_BYTES_MAX: usize = 58;

/// Sets the namespace of the request path on the object, or fails if the object names another one (upstream:
/// `EnsureObjectNamespaceMatchesRequestNamespace`).
pub fn ensure_request_namespace(
    context: &RequestContext<'_>,
    object: &mut JsonObject,
) -> Result<(), Status> {
    let request_namespace = context.namespace().unwrap_or_default();
    let object_namespace = object.namespace();
    if object_namespace == request_namespace {
        return Ok(());
    }
    if request_namespace.is_empty() {
        object.clear_meta("namespace");
    } else if object_namespace.is_empty() {
        object.set_meta("namespace", request_namespace);
    } else {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The prefix and five random characters, without vowels and look-alikes (upstream: `SimpleNameGenerator`).
pub fn generate_name(prefix: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut end = prefix.len().min(NAME_PREFIX_BYTES_MAX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let random = uuid::Uuid::new_v4();
    let suffix = random
        .as_bytes()
        .iter()
        .take(5)
        .map(|&byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
    prefix[..end].chars().chain(suffix).collect()
}
