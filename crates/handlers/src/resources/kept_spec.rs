//! Updates of objects whose stored spec has unknown fields, for kinds that reject these: a server of a later release has
//! written them. A write that leaves the spec alone keeps it as it is stored; any other write is rejected.

use rhumb_api::JsonObject;
use rhumb_meta::Status;
use serde_json::Value;

use super::codec::{DecodeBody, decode_options};
use super::decode_failure::DecodeFailure;
use crate::request::FieldValidation;
use rhumb_registry::RequestContext;
use rhumb_registry::objects::{SPEC, copy_spec};

/// An object that a client sent, of a kind that rejects unknown fields. Whether it may have some depends on the object that
/// it replaces.
#[derive(Debug)]
pub(super) struct SentUnknownFields {
    /// Its unknown and duplicate fields.
    pub(super) problems: Vec<String>,
    /// The spec with its unknown fields; `None` if they cannot be known, as in protobuf.
    pub(super) spec: Option<Value>,
    pub(super) validation: FieldValidation,
}

/// The unknown fields of a stored object of a kind that rejects these, and the object without them.
#[derive(Debug, Default)]
pub(super) struct StoredUnknownFields {
    pub(super) problems: Vec<String>,
    pruned: JsonObject,
}

/// Finds the unknown fields of an object in the version of the request.
pub(super) fn unknown_fields(
    context: &RequestContext<'_>,
    object: &JsonObject,
    validation: FieldValidation,
) -> StoredUnknownFields {
    if !matches!(validation, FieldValidation::ForcedStrict(_)) {
        return StoredUnknownFields::default();
    }
    let json = Value::Object(object.clone()).to_string();
    let decoded = context.decode_json(
        json.as_bytes(),
        context.expected_type(),
        decode_options(validation),
    );
    decoded.map_or_else(
        |_| StoredUnknownFields::default(),
        |decoded| StoredUnknownFields {
            problems: decoded.problems,
            pruned: decoded.object,
        },
    )
}

/// Accepts or rejects the unknown fields of a body that replaces the stored object. If the body has the stored spec,
/// with or without its unknown fields, the new object gets it as it is stored.
pub(super) fn keep_stored_spec(
    context: &RequestContext<'_>,
    body: &SentUnknownFields,
    stored: &JsonObject,
    new: &mut JsonObject,
) -> Result<(), Status> {
    let known = unknown_fields(context, stored, body.validation);
    let mut problems = body.problems.clone();
    if !known.problems.is_empty() {
        let is_same = body.spec.as_ref() == stored.get(SPEC);
        if is_same || is_pruned_spec(context, &known.pruned, new) {
            problems.retain(|problem| !known.problems.contains(problem));
            copy_spec(stored, new);
        }
        if !is_same && new.get(SPEC) == stored.get(SPEC) {
            context.warn(format!(
                "the spec is kept as it is stored, with fields that this server does not know: {}; to remove them, \
                 send a patch or another spec",
                known.problems.join(", ")
            ));
        }
    }
    context
        .report_unknown_fields(&problems, &[], body.validation)
        .map_err(|text| strict_decoding_error(context, text))
}

/// The error for a body with unknown fields.
pub(super) fn strict_decoding_error(context: &RequestContext<'_>, text: String) -> Status {
    let expected = context.expected_type();
    DecodeFailure::cannot_handle(expected.kind, expected.api_version, text)
        .status(expected.kind, b"")
}

/// Whether a new object has the stored spec without its unknown fields, as clients read it that do not know them
/// either. They may not know fields that the server sets.
fn is_pruned_spec(context: &RequestContext<'_>, stored: &JsonObject, new: &JsonObject) -> bool {
    let rejection = context.resource.kind.write_behavior.unknown_field_rejection;
    let server_set = rejection.map_or(&[][..], |rejection| rejection.server_set_spec_fields);
    let canonical = |object: &JsonObject| {
        let mut object = object.clone();
        context.version.schema.canonicalize(&mut object);
        object.remove(SPEC).unwrap_or_default()
    };
    let (mut stored, new) = (canonical(stored), canonical(new));
    if let Some(stored) = stored.as_object_mut() {
        stored.retain(|field, _| !server_set.contains(&field.as_str()) || new.get(field).is_some());
    }
    stored == new
}
