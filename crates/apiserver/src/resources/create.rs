//! `create`: POST to a collection.
//!
//! Entry point: `create`.

use rhumb_api::JsonObject;
use rhumb_meta::Status;

use super::get::parse_uint;
use super::write::ObjectPart;
use super::{RequestContext, ResourceRequest, render};
use crate::http::Reply;
use crate::objects::{ObjectMetadata, ObjectMetadataMut};
use crate::request::WriteOptions;

/// How much of `generateName` is kept in a generated name.
const NAME_PREFIX_BYTES_MAX: usize = 58;

pub(super) async fn create(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let validation = request.effective_field_validation(options.field_validation, ObjectPart::Main);
    let mut object = request.decode(request.expected_type(), validation)?;
    check_new_object(request, &mut object)?;
    request.convert_to_stored(&mut object)?;
    let created = request.create_object(object, options.dry_run).await?;
    render::write_response(request, created)
}

/// Checks the namespace of a new object, and that it has no resourceVersion.
fn check_new_object(context: &RequestContext<'_>, object: &mut JsonObject) -> Result<(), Status> {
    ensure_request_namespace(context, object)?;
    let version = object.resource_version();
    if !version.is_empty() && parse_uint(version).is_ok_and(|version| version != 0) {
        return Err(Status::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    object.clear_meta("resourceVersion");
    Ok(())
}

/// Sets the namespace of the request path on the object, or fails if the object names another one (upstream:
/// `EnsureObjectNamespaceMatchesRequestNamespace`).
pub(super) fn ensure_request_namespace(
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
pub(crate) fn generate_name(prefix: &str) -> String {
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
