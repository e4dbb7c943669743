//! `patch`: JSON patch, JSON merge patch and strategic merge patch. Server-side apply is not supported yet.
//!
//! Entry point: `patch_object`. JSON patch itself is in the schema crate.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use rhumb_api::JsonObject;
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, Status};
use rhumb_schema::{AliasResolver, JSON_PATCH_OPERATIONS_MAX, JsonPatch};
use serde_json::Value;

use super::codec::{DecodeBody, ExpectedType, decode_options, with_type_meta};
use super::disabled_fields::report_disabled_fields;
use super::kept_spec::unknown_fields;
use super::update::{check_name, propose_replacement};
use super::{ResourceRequest, render};
use crate::http::{Reply, generic_status};
use crate::request::{FieldValidation, WriteOptions};
use rhumb_registry::RequestContext;
use rhumb_registry::ensure_request_namespace;
use rhumb_registry::objects::{SPEC, copy_spec};
use rhumb_registry::write::{ObjectUpdate, ProposedWrite, StoredObject, UpdateScope};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A parsed patch from a request body.
#[derive(Debug)]
pub(super) struct ParsedPatch {
    document: PatchDocument,
    /// Duplicate fields, for field validation.
    problems: Vec<String>,
}

/// The content of a patch, by patch type.
#[derive(Debug)]
enum PatchDocument {
    Json(JsonPatch),
    Merge(JsonObject),
    Strategic(JsonObject),
}

pub(super) async fn patch_object(
    request: &ResourceRequest<'_>,
    part: UpdateScope,
) -> Result<Reply, Status> {
    if media_type(request.header(CONTENT_TYPE)) == APPLY_PATCH {
        return Err(Status::unsupported_media_type(&[
            JSON_PATCH,
            MERGE_PATCH,
            STRATEGIC_MERGE_PATCH,
        ]));
    }
    let options = WriteOptions::parse(request.query, "PatchOptions")?;
    request.audit_patch();
    let key = request.key()?;
    let update = PatchUpdate {
        context: request,
        patch: ParsedPatch::parse(request.header(CONTENT_TYPE), &request.body),
        part,
        validation: request.effective_field_validation(options.field_validation, part),
    };
    let result = request.update_object(&key, options.dry_run, &update);
    render::write_response(request, result.await?)
}

fn media_type(content_type: Option<&str>) -> &str {
    content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
}

/// Whether a Content-Type is that of a patch, including apply patches.
pub(super) fn is_patch_media_type(content_type: Option<&str>) -> bool {
    [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH]
        .contains(&media_type(content_type))
}

impl ParsedPatch {
    pub(super) fn parse(content_type: Option<&str>, body: &[u8]) -> Result<ParsedPatch, Status> {
        let malformed = |text: String| Status::bad_request(format!("error decoding patch: {text}"));
        match media_type(content_type) {
            JSON_PATCH => {
                let operations = JsonPatch::parse(body).map_err(malformed)?;
                if operations.len() > JSON_PATCH_OPERATIONS_MAX {
                    return Err(Status::request_entity_too_large(format!(
                        "The allowed maximum operations in a JSON patch is {JSON_PATCH_OPERATIONS_MAX}, got {}",
                        operations.len()
                    )));
                }
                Ok(ParsedPatch {
                    document: PatchDocument::Json(operations),
                    problems: Vec::new(),
                })
            }
            MERGE_PATCH if body.trim_ascii() == b"null" => {
                Err(Status::bad_request("Invalid JSON Patch"))
            }
            MERGE_PATCH => {
                let decoded = rhumb_schema::decode_untyped(body, true)
                    .map_err(|error| malformed(error.to_string()))?;
                Ok(ParsedPatch {
                    document: PatchDocument::Merge(decoded.object),
                    problems: decoded.problems,
                })
            }
            STRATEGIC_MERGE_PATCH => {
                let decoded = rhumb_schema::decode_untyped(body, true)
                    .map_err(|error| Status::bad_request(error.to_string()))?;
                Ok(ParsedPatch {
                    document: PatchDocument::Strategic(decoded.object),
                    problems: decoded.problems,
                })
            }
            _ => Err(Status::unsupported_media_type(&[
                JSON_PATCH,
                MERGE_PATCH,
                STRATEGIC_MERGE_PATCH,
            ])),
        }
    }

    /// Applies the patch to an object and decodes the result, both in the version of the request.
    pub(super) fn apply_and_decode(
        &self,
        context: &RequestContext<'_>,
        expected: ExpectedType<'_>,
        original: JsonObject,
        validation: FieldValidation,
    ) -> Result<JsonObject, Status> {
        let stored = unknown_fields(context, &original, validation).problems;
        let patched = self.apply(context, expected, &original)?;
        let keeps_spec = !stored.is_empty() && original.get(SPEC) == patched.get(SPEC);
        let invalid = |text: String| {
            let mut errors = ErrorList::new();
            errors.push(Error::invalid(
                &Path::new("patch"),
                self.error_value(&patched),
                text,
            ));
            Status::invalid(&GroupKind::new("", ""), "", &errors)
        };
        let json = patched.to_string();
        let decoded = context
            .decode_json(json.as_bytes(), expected, decode_options(validation))
            .map_err(|failure| invalid(self.error_text(failure.into_message())))?;
        context.warn_all(decoded.alias_warnings);
        let mut problems = [&self.problems[..], &decoded.problems].concat();
        let mut rejected = decoded.rejected;
        if keeps_spec {
            problems.retain(|problem| !stored.contains(problem));
        }
        if !rejected.is_empty() {
            let existing = existing_rejected_fields(context, expected, &original, validation);
            rejected.retain(|problem| !existing.contains(problem));
        }
        context
            .report_unknown_fields(&problems, &rejected, validation)
            .map_err(invalid)?;
        let mut object = with_type_meta(decoded.object, expected);
        if keeps_spec {
            copy_spec(&original, &mut object);
        }
        Ok(object)
    }

    fn apply(
        &self,
        context: &RequestContext<'_>,
        expected: ExpectedType<'_>,
        original: &JsonObject,
    ) -> Result<Value, Status> {
        let (table, schema) = (expected.schema.table(), expected.schema.id());
        let mut alias_resolver = AliasResolver::new(table, schema);
        let mut resolve_aliases = |patch: &JsonObject| {
            let mut patch = patch.clone();
            let resolved = alias_resolver.resolve_patch(&mut patch);
            resolved.map_err(|error| Status::bad_request(error.to_string()))?;
            Ok(patch)
        };
        let patched = match &self.document {
            PatchDocument::Json(operations) => operations
                .apply(Value::Object(original.clone()), &mut alias_resolver)
                .map_err(|_| {
                    generic_status::generic_status(StatusCode::UNPROCESSABLE_ENTITY, "")
                })?,
            PatchDocument::Merge(merge) => {
                let mut document = Value::Object(original.clone());
                json_patch::merge(&mut document, &Value::Object(resolve_aliases(merge)?));
                document
            }
            PatchDocument::Strategic(strategic) => {
                let patch = resolve_aliases(strategic)?;
                rhumb_schema::strategic_merge(table, schema, original, patch)
                    .map(Value::Object)
                    .map_err(|error| Status::bad_request(error.to_string()))?
            }
        };
        context.warn_all(alias_resolver.into_warnings());
        Ok(patched)
    }

    /// The invalid value for errors: the patched object, or for strategic merge patches the patch, as upstream has it.
    fn error_value(&self, patched: &Value) -> String {
        match &self.document {
            PatchDocument::Strategic(strategic) => {
                let mut text = String::new();
                write_go_map(strategic, &mut text);
                text
            }
            _ => patched.to_string(),
        }
    }

    /// Upstream decodes the result of a strategic merge patch from unstructured data, with other error messages.
    fn error_text(&self, text: String) -> String {
        let original_operation = match &self.document {
            PatchDocument::Strategic(_) => unstructured_error(&text),
            _ => None,
        };
        original_operation.unwrap_or(text)
    }
}

/// Unknown fields in types that reject these, which the stored object already has: a server of a later release has
/// written them.
fn existing_rejected_fields(
    context: &RequestContext<'_>,
    expected: ExpectedType<'_>,
    original: &JsonObject,
    validation: FieldValidation,
) -> Vec<String> {
    let json = Value::Object(original.clone()).to_string();
    context
        .decode_json(json.as_bytes(), expected, decode_options(validation))
        .map_or_else(|_| Vec::new(), |decoded| decoded.rejected)
}

/// Upstream's `FromUnstructured` error for a JSON error such as
/// `json: cannot unmarshal string into Go struct field … of type []v1.Container`.
fn unstructured_error(text: &str) -> Option<String> {
    let rest = text.strip_prefix("json: cannot unmarshal ")?;
    let (actual, rest) = rest.split_once(' ')?;
    let (_, expected) = rest.rsplit_once(" of type ")?;
    // Errors of fields that upstream does not have may end with advice.
    if expected.contains(": ") {
        return None;
    }
    let actual = match actual {
        "object" => "map",
        "array" => "slice",
        "number" => "int64",
        other => other,
    };
    if expected.starts_with("[]") {
        Some(format!("cannot restore slice from {actual}"))
    } else if expected.starts_with("map[") {
        Some(format!("cannot restore map from {actual}"))
    } else if expected.contains('.') {
        Some(format!("cannot restore struct from: {actual}"))
    } else {
        None
    }
}

/// Formats a map as Go's `%v` does.
fn write_go_map(map: &JsonObject, text: &mut String) {
    let mut fields: Vec<(&String, &Value)> = map.iter().collect();
    fields.sort_by_key(|(name, _)| *name);
    text.push_str("map[");
    for (position, (name, value)) in fields.into_iter().enumerate() {
        if position > 0 {
            text.push(' ');
        }
        text.push_str(name);
        text.push(':');
        write_go_value(value, text);
    }
    text.push(']');
}

fn write_go_value(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(value) => text.push_str(&value.to_string()),
        Value::String(value) => text.push_str(value),
        Value::Object(map) => write_go_map(map, text),
        Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    text.push(' ');
                }
                write_go_value(item, text);
            }
            text.push(']');
        }
    }
}

/// Applies a patch to the current object.
struct PatchUpdate<'a> {
    context: &'a RequestContext<'a>,
    /// A malformed patch is reported only after the object was found, as NotFound comes first.
    patch: Result<ParsedPatch, Status>,
    part: UpdateScope,
    validation: FieldValidation,
}

// A resourceVersion in the patch is checked against the current object on each attempt, so the write is not conditional.
impl ObjectUpdate for PatchUpdate<'_> {
    fn propose(&self, current: Option<&StoredObject>) -> Result<ProposedWrite, Status> {
        let context = self.context;
        let current = current.ok_or_else(|| context.not_found())?;
        let patch = self.patch.as_ref().map_err(Clone::clone)?;
        let mut original = current.object.clone();
        context.convert_to_served(&mut original);
        let mut new =
            patch.apply_and_decode(context, context.expected_type(), original, self.validation)?;
        if self.part.is_main() {
            report_disabled_fields(context, &new, Some(&current.object), self.validation)?;
        }
        ensure_request_namespace(context, &mut new)?;
        check_name(context, &new)?;
        context.convert_to_stored(&mut new)?;
        propose_replacement(context, current, new, self.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patches_are_formatted_like_go_maps() {
        let Value::Object(map) = json!({"b": [1, "x", null], "a": {"c": true}}) else {
            return;
        };
        let mut text = String::new();
        write_go_map(&map, &mut text);
        assert_eq!(text, "map[a:map[c:true] b:[1 x <nil>]]");
    }

    #[test]
    fn malformed_patch_bodies_get_gos_errors() {
        for (media, body, expect) in [
            (
                MERGE_PATCH,
                "{",
                "error decoding patch: unexpected end of JSON input",
            ),
            (
                MERGE_PATCH,
                "[]",
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (MERGE_PATCH, "null", "Invalid JSON Patch"),
            (STRATEGIC_MERGE_PATCH, "[", "unexpected end of JSON input"),
            (
                JSON_PATCH,
                "[",
                "error decoding patch: unexpected end of JSON input",
            ),
        ] {
            let status = ParsedPatch::parse(Some(media), body.as_bytes()).unwrap_err();
            assert_eq!(status.message, expect, "{media} {body}");
        }
    }
}
