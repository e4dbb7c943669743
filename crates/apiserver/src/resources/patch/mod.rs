//! PATCH, in the three forms that need no field ownership.

mod operations;

use async_trait::async_trait;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use rhumb_api::Object;
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, Status};
use rhumb_schema::{Speller, Table, TypeId};
use serde_json::Value;

use super::codec::{Expected, named, strictness};
use super::create::place_in_namespace;
use super::prepare::Part;
use super::update::{check_name, update_to};
use super::write::{Change, Current, Edit};
use super::{Call, render};
use crate::http::{Reply, generic};
use crate::request::{FieldValidation, WriteOptions};
use operations::Operation;
pub(crate) use operations::PatchFailure;

/// What upstream allows.
const OPERATIONS_MAX: usize = 10_000;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A patch as it was sent.
#[derive(Debug)]
pub(super) struct Patch {
    form: Form,
    /// Fields that are there twice.
    problems: Vec<String>,
}

#[derive(Debug)]
enum Form {
    Json(Vec<Operation>),
    Merge(Object),
    Strategic(Object),
}

/// A JSON patch that did not come from the client of the request.
#[derive(Debug)]
pub(crate) struct JsonPatch(Vec<Operation>);

impl JsonPatch {
    /// What is wrong with it is said in Go's words.
    pub(crate) fn parse(bytes: &[u8]) -> Result<JsonPatch, String> {
        let operations = operations::decode(bytes)?;
        if operations.len() > OPERATIONS_MAX {
            return Err(format!("more than {OPERATIONS_MAX} operations"));
        }
        Ok(JsonPatch(operations))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What it makes of a document of a type, if it applies to it.
    pub(crate) fn apply(
        &self,
        table: &Table,
        of: TypeId,
        document: Value,
    ) -> Result<Value, PatchFailure> {
        operations::apply(document, &self.0, &mut Speller::new(table, of))
    }
}

pub(super) async fn patch_object(call: &Call<'_>, part: Part) -> Result<Reply, Status> {
    if media_of(call.header(CONTENT_TYPE)) == APPLY {
        return Err(Status::unsupported_media_type(&[JSON, MERGE, STRATEGIC]));
    }
    let options = WriteOptions::parse(call.query, "PatchOptions")?;
    call.record_patch();
    let key = call.key()?;
    let edit = Apply {
        call,
        patch: Patch::parse(call.header(CONTENT_TYPE), &call.body),
        part,
        dry_run: options.dry_run,
        validation: call.validation(options.field_validation, part),
    };
    let written = call.change(&key, options.dry_run, &edit).await?;
    render::written(call, written, options.dry_run)
}

fn media_of(content_type: Option<&str>) -> &str {
    content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
}

/// Whether a media type is one that patches have, here or upstream.
pub(super) fn is_known(content_type: Option<&str>) -> bool {
    [JSON, MERGE, STRATEGIC, APPLY].contains(&media_of(content_type))
}

impl Patch {
    pub(super) fn parse(content_type: Option<&str>, body: &[u8]) -> Result<Patch, Status> {
        let malformed = |text: String| Status::bad_request(format!("error decoding patch: {text}"));
        match media_of(content_type) {
            JSON => {
                let operations = operations::decode(body).map_err(malformed)?;
                if operations.len() > OPERATIONS_MAX {
                    return Err(Status::request_entity_too_large(format!(
                        "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                        operations.len()
                    )));
                }
                Ok(Patch {
                    form: Form::Json(operations),
                    problems: Vec::new(),
                })
            }
            MERGE if body.trim_ascii() == b"null" => Err(Status::bad_request("Invalid JSON Patch")),
            MERGE => {
                let decoded = rhumb_schema::decode_any(body, true)
                    .map_err(|error| malformed(error.to_string()))?;
                Ok(Patch {
                    form: Form::Merge(decoded.object),
                    problems: decoded.problems,
                })
            }
            STRATEGIC => {
                let decoded = rhumb_schema::decode_any(body, true)
                    .map_err(|error| Status::bad_request(error.to_string()))?;
                Ok(Patch {
                    form: Form::Strategic(decoded.object),
                    problems: decoded.problems,
                })
            }
            _ => Err(Status::unsupported_media_type(&[JSON, MERGE, STRATEGIC])),
        }
    }

    /// What the patch makes of an object, both in the version of the request.
    pub(super) fn outcome(
        &self,
        call: &Call<'_>,
        expected: Expected<'_>,
        before: Object,
        validation: FieldValidation,
    ) -> Result<Object, Status> {
        let known = known_problems(call, expected, &before, validation);
        let patched = self.apply(call, expected, before)?;
        let invalid = |text: String| {
            let mut errors = ErrorList::new();
            errors.push(Error::invalid(
                &Path::new("patch"),
                self.shown(&patched),
                text,
            ));
            Status::invalid(&GroupKind::new("", ""), "", &errors)
        };
        let json = patched.to_string();
        let decoded = call
            .decode_json(json.as_bytes(), expected, strictness(validation))
            .map_err(|misfit| invalid(self.reason(misfit.into_text())))?;
        call.tell(decoded.respelled);
        let mut problems = [&self.problems[..], &decoded.problems].concat();
        problems.retain(|problem| !known.contains(problem));
        call.strictly(&problems, validation).map_err(invalid)?;
        Ok(named(decoded.object, expected))
    }

    fn apply(
        &self,
        call: &Call<'_>,
        expected: Expected<'_>,
        before: Object,
    ) -> Result<Value, Status> {
        let table = call.api.table;
        let mut speller = Speller::new(table, expected.schema);
        let mut respelled = |patch: &Object| {
            let mut patch = patch.clone();
            let done = speller.patch(&mut patch);
            done.map_err(|error| Status::bad_request(error.to_string()))?;
            Ok(patch)
        };
        let patched = match &self.form {
            Form::Json(operations) => {
                operations::apply(Value::Object(before), operations, &mut speller)
                    .map_err(|_| generic::generic(StatusCode::UNPROCESSABLE_ENTITY, ""))?
            }
            Form::Merge(merge) => {
                let mut document = Value::Object(before);
                json_patch::merge(&mut document, &Value::Object(respelled(merge)?));
                document
            }
            Form::Strategic(strategic) => {
                let patch = respelled(strategic)?;
                rhumb_schema::strategic_merge(table, expected.schema, &before, patch)
                    .map(Value::Object)
                    .map_err(|error| Status::bad_request(error.to_string()))?
            }
        };
        call.tell(speller.into_notes());
        Ok(patched)
    }

    /// What an error shows: the outcome, or the patch itself where upstream never has the outcome as JSON.
    fn shown(&self, patched: &Value) -> String {
        match &self.form {
            Form::Strategic(strategic) => {
                let mut text = String::new();
                write_go_map(strategic, &mut text);
                text
            }
            _ => patched.to_string(),
        }
    }

    /// Upstream reads the outcome of a strategic patch with other code, which has other words.
    fn reason(&self, text: String) -> String {
        let restored = match &self.form {
            Form::Strategic(_) => restore_error(&text),
            _ => None,
        };
        restored.unwrap_or(text)
    }
}

/// What a stored object has that is refused in new ones, as a server of another release may have written it. A patch
/// that does not bring it is no worse for it.
fn known_problems(
    call: &Call<'_>,
    expected: Expected<'_>,
    before: &Object,
    validation: FieldValidation,
) -> Vec<String> {
    if !matches!(validation, FieldValidation::Refuse(_)) {
        return Vec::new();
    }
    let json = Value::Object(before.clone()).to_string();
    call.decode_json(json.as_bytes(), expected, strictness(validation))
        .map_or_else(|_| Vec::new(), |decoded| decoded.problems)
}

/// From `json: cannot unmarshal string into Go struct field … of type []v1.Container`.
fn restore_error(text: &str) -> Option<String> {
    let rest = text.strip_prefix("json: cannot unmarshal ")?;
    let (found, rest) = rest.split_once(' ')?;
    let (_, wanted) = rest.rsplit_once(" of type ")?;
    let found = match found {
        "object" => "map",
        "array" => "slice",
        "number" => "int64",
        other => other,
    };
    if wanted.starts_with("[]") {
        Some(format!("cannot restore slice from {found}"))
    } else if wanted.starts_with("map[") {
        Some(format!("cannot restore map from {found}"))
    } else if wanted.contains('.') {
        Some(format!("cannot restore struct from: {found}"))
    } else {
        None
    }
}

/// A map as Go's `%v` shows it.
fn write_go_map(map: &Object, text: &mut String) {
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

struct Apply<'a> {
    call: &'a Call<'a>,
    /// A patch that is none is only told of once there is something that it could be for.
    patch: Result<Patch, Status>,
    part: Part,
    dry_run: bool,
    validation: FieldValidation,
}

#[async_trait]
impl Edit for Apply<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        let call = self.call;
        let patch = self.patch.as_ref().map_err(Clone::clone)?;
        let mut before = current.object.clone();
        call.to_served(&mut before);
        let mut new = patch.outcome(call, call.expected(), before, self.validation)?;
        place_in_namespace(call, &mut new)?;
        check_name(call, &new)?;
        call.to_stored(&mut new)?;
        update_to(call, current, new, self.part, self.dry_run).await
    }

    /// The patch may name a version; then the check of it is final anyway.
    fn is_conditional(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patches_are_shown_as_go_shows_maps() {
        let Value::Object(map) = json!({"b": [1, "x", null], "a": {"c": true}}) else {
            return;
        };
        let mut text = String::new();
        write_go_map(&map, &mut text);
        assert_eq!(text, "map[a:map[c:true] b:[1 x <nil>]]");
    }

    #[test]
    fn bodies_that_are_no_patches_are_refused_in_gos_words() {
        for (media, body, expect) in [
            (
                MERGE,
                "{",
                "error decoding patch: unexpected end of JSON input",
            ),
            (
                MERGE,
                "[]",
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (MERGE, "null", "Invalid JSON Patch"),
            (STRATEGIC, "[", "unexpected end of JSON input"),
            (
                JSON,
                "[",
                "error decoding patch: unexpected end of JSON input",
            ),
        ] {
            let status = Patch::parse(Some(media), body.as_bytes()).unwrap_err();
            assert_eq!(status.message, expect, "{media} {body}");
        }
    }
}
