//! Validation of `metadata.ownerReferences`.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use serde::Serialize;

use crate::{FieldView, checks};

/// An owner reference with its fields in the order in which errors show them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

impl<'a> OwnerReference<'a> {
    fn of(reference: &'a FieldView<'a>) -> Self {
        let text = |name| {
            let fields = reference.object();
            let value = fields.and_then(|object| object.get(name));
            value.and_then(|value| value.as_str()).unwrap_or_default()
        };
        OwnerReference {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: reference.field("controller").opt_bool(),
            block_owner_deletion: reference.field("blockOwnerDeletion").opt_bool(),
        }
    }
}

pub(super) fn validate(references: &FieldView<'_>, errors: &mut ErrorList) {
    let mut controller: Option<String> = None;
    for item in references.items() {
        let reference = OwnerReference::of(&item);
        validate_one(references, &reference, errors);
        if reference.controller != Some(true) {
            continue;
        }
        let name = format!("{}/{}", reference.kind, reference.name);
        match &controller {
            None => controller = Some(name),
            Some(first) => errors.push(second_controller(references, first, &name)),
        }
    }
}

/// Like upstream, reports errors of one reference at the path of the list.
fn validate_one(
    references: &FieldView<'_>,
    reference: &OwnerReference<'_>,
    errors: &mut ErrorList,
) {
    let (group, version) = match reference.api_version.split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", reference.api_version),
    };
    let is_readable = !version.is_empty() && !version.contains('/');
    if !is_readable {
        let field = references.field("apiVersion");
        let detail = "version must not be empty";
        errors.push(Error::invalid(field.path(), reference.api_version, detail));
    }
    for (name, value) in [
        ("kind", reference.kind),
        ("name", reference.name),
        ("uid", reference.uid),
    ] {
        if value.is_empty() {
            checks::invalid_text(&references.field(name), errors, "must not be empty");
        }
    }
    if (group, version, reference.kind) == ("", "v1", "Event") {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(Error::invalid(
            references.path(),
            BadValue::json(reference),
            detail,
        ));
    }
}

fn second_controller(references: &FieldView<'_>, first: &str, second: &str) -> Error {
    let items: Vec<FieldView<'_>> = references.items().collect();
    let shown: Vec<OwnerReference<'_>> = items.iter().map(OwnerReference::of).collect();
    let detail = format!(
        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
    );
    Error::invalid(references.path(), BadValue::json(&shown), detail)
}
