//! PATCH, in the three forms that need no field ownership.

use async_trait::async_trait;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use json_patch::{PatchOperation, patch};
use rhumb_api::Object;
use rhumb_meta::Status;
use serde_json::Value;

use super::update::update_to;
use super::write::{Change, Current, Edit, Part};
use super::{Call, render};
use crate::http::Reply;
use crate::objects::Metadata;
use crate::request::{FieldValidation, WriteOptions};

/// What upstream allows.
const OPERATIONS_MAX: usize = 10_000;

/// How much a patch may copy in all: without it, forty copies fill any memory.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A patch as it was sent.
#[derive(Debug)]
pub(super) enum Patch {
    Json(Vec<PatchOperation>),
    Merge(Value),
    Strategic(Object),
}

pub(super) async fn patch_object(call: &Call<'_>, part: Part) -> Result<Reply, Status> {
    let patch = Patch::parse(call.header(CONTENT_TYPE), &call.body)?;
    let options = WriteOptions::parse(call.query, "PatchOptions")?;
    let key = call.key()?;
    let edit = Apply {
        call,
        patch,
        part,
        dry_run: options.dry_run,
        validation: options.field_validation,
    };
    let written = call.change(&key, options.dry_run, &edit).await?;
    render::object(call, StatusCode::OK, written.object)
}

impl Patch {
    pub(super) fn parse(content_type: Option<&str>, body: &[u8]) -> Result<Patch, Status> {
        let media = content_type
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        let malformed = |error: serde_json::Error| {
            Status::bad_request(format!("error decoding patch: {error}"))
        };
        match media {
            "application/json-patch+json" => {
                let operations: Vec<PatchOperation> =
                    serde_json::from_slice(body).map_err(malformed)?;
                if operations.len() > OPERATIONS_MAX {
                    return Err(Status::request_entity_too_large(format!(
                        "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                        operations.len()
                    )));
                }
                Ok(Patch::Json(operations))
            }
            "application/merge-patch+json" => Ok(Patch::Merge(
                serde_json::from_slice(body).map_err(malformed)?,
            )),
            "application/strategic-merge-patch+json" => Ok(Patch::Strategic(
                serde_json::from_slice(body).map_err(malformed)?,
            )),
            _ => Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ])),
        }
    }

    /// The patched object, in the version of the request.
    pub(super) fn apply(
        &self,
        call: &Call<'_>,
        schema: rhumb_schema::TypeId,
        object: Object,
    ) -> Result<Value, Status> {
        match self {
            Patch::Json(operations) => apply_operations(Value::Object(object), operations),
            Patch::Merge(merge) => {
                let mut document = Value::Object(object);
                json_patch::merge(&mut document, merge);
                Ok(document)
            }
            Patch::Strategic(strategic) => {
                rhumb_schema::strategic_merge(call.api.table, schema, &object, strategic.clone())
                    .map(Value::Object)
                    .map_err(|error| Status::bad_request(error.to_string()))
            }
        }
    }
}

/// One operation at a time, so that what they copy can be counted before it is there.
fn apply_operations(mut document: Value, operations: &[PatchOperation]) -> Result<Value, Status> {
    let mut copied_bytes = 0;
    for operation in operations {
        if let PatchOperation::Copy(copy) = operation {
            copied_bytes += document.pointer(copy.from.as_str()).map_or(0, size_of);
            if copied_bytes > COPIED_BYTES_MAX {
                return Err(Status::request_entity_too_large(format!(
                    "a JSON patch may copy at most {COPIED_BYTES_MAX} bytes"
                )));
            }
        }
        patch(&mut document, std::slice::from_ref(operation))
            .map_err(|error| unprocessable(&error))?;
    }
    Ok(document)
}

/// About how long a value is as JSON.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size_of).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(name, value)| name.len() + 4 + size_of(value))
                .sum::<usize>()
                + 2
        }
    }
}

fn unprocessable(error: &json_patch::PatchError) -> Status {
    let mut status = Status::bad_request(error.to_string());
    status.code = StatusCode::UNPROCESSABLE_ENTITY.as_u16().into();
    status.reason = rhumb_meta::StatusReason::INVALID;
    status
}

struct Apply<'a> {
    call: &'a Call<'a>,
    patch: Patch,
    part: Part,
    dry_run: bool,
    validation: FieldValidation,
}

#[async_trait]
impl Edit for Apply<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        let call = self.call;
        let mut before = current.object.clone();
        call.from_stored(&mut before);
        let patched = self.patch.apply(call, call.version.schema, before)?;
        let mut new = call.decode_value(patched, call.expected(), self.validation)?;
        check_identity(call, &new)?;
        call.to_stored(&mut new)?;
        // A retry must not tell the same warnings again.
        update_to(call, current, new, self.part, self.dry_run).await
    }

    /// The patch may name a version; then the check of it is final anyway.
    fn is_conditional(&self) -> bool {
        false
    }
}

/// A patch cannot rename or move an object.
fn check_identity(call: &Call<'_>, new: &Object) -> Result<(), Status> {
    if new.name() != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            new.name(),
            call.name()
        )));
    }
    match call.namespace() {
        Some(namespace) if new.namespace() != namespace => Err(Status::bad_request(format!(
            "the namespace of the object ({}) does not match the namespace on the request ({namespace})",
            new.namespace()
        ))),
        _ => Ok(()),
    }
}
