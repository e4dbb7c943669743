//! Validation of the `versions` of a custom resource definition. Upstream's internal type hoists values that are
//! equal in all versions to the top level, and errors use that path.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::FieldView;
use crate::validation_helpers::checks;

const WARNING_MAX_BYTES: usize = 256;
const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] = &[
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

pub(super) fn validate(versions: &FieldView<'_>, errors: &mut ErrorList) {
    for version in versions.items() {
        let schema = version.field("schema");
        let root = schema.field("openAPIV3Schema");
        if !root.exists() {
            root.required(errors, "");
        }
    }
    let is_shared = |name: &str| {
        let mut parts = versions
            .items()
            .map(|version| version.field(name).value().cloned());
        let first = parts.next();
        parts.all(|part| Some(part) == first)
    };
    let shared_subresources = is_shared("subresources");
    let shared_columns = is_shared("additionalPrinterColumns");
    let mut names = HashSet::new();
    for version in versions.items() {
        let name = version.field("name");
        names.insert(name.str().to_owned());
        let problems = validation::dns1035_label(name.str());
        if !problems.is_empty() {
            checks::invalid_text(&name, errors, problems.join(","));
        }
        validate_deprecation(&version, errors);
        if !shared_subresources {
            validate_subresources(&version.field("subresources"), errors);
        }
        if !shared_columns {
            validate_columns(&version.field("additionalPrinterColumns"), errors);
        }
    }
    if names.len() < versions.len() {
        versions.invalid(errors, "must contain unique version names");
    }
    let stored = versions
        .items()
        .filter(|version| version.field("storage").is_true());
    if stored.count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        versions.invalid(errors, detail);
    }
}

/// Validates values that are equal in all versions, at the top-level paths that upstream reports.
pub(super) fn validate_shared(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let versions = spec.field("versions");
    let shared = |name: &str| {
        let mut parts = versions
            .items()
            .map(|version| version.field(name).value().cloned());
        let first = parts.next()??;
        parts
            .all(|part| part.as_ref() == Some(&first))
            .then_some(first)
    };
    let subresources = shared("subresources");
    let place = spec.path().child("subresources");
    validate_subresources(&FieldView::at(subresources.as_ref(), place), errors);
    let columns = shared("additionalPrinterColumns");
    let place = spec.path().child("additionalPrinterColumns");
    validate_columns(&FieldView::at(columns.as_ref(), place), errors);
}

fn validate_deprecation(version: &FieldView<'_>, errors: &mut ErrorList) {
    let warning = version.field("deprecationWarning");
    let Some(text) = warning.opt_str() else {
        return;
    };
    if !version.field("deprecated").is_true() {
        warning.invalid(errors, "can only be set for deprecated versions");
        return;
    }
    if text.len() > WARNING_MAX_BYTES {
        warning.invalid(
            errors,
            format!("must be <= {WARNING_MAX_BYTES} characters long"),
        );
    }
    if text.is_empty() {
        warning.invalid(errors, "must not be an empty string");
    }
    if let Some((index, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        );
        warning.invalid(errors, detail);
    }
}

fn validate_subresources(subresources: &FieldView<'_>, errors: &mut ErrorList) {
    let scale = subresources.field("scale");
    if !scale.exists() {
        return;
    }
    let paths = [
        (
            "specReplicasPath",
            ".spec.",
            "should be a json path under .spec",
        ),
        (
            "statusReplicasPath",
            ".status.",
            "should be a json path under .status",
        ),
    ];
    for (name, prefix, detail) in paths {
        let path = scale.field(name);
        if path.is_empty() {
            path.required(errors, "");
        } else if !validate_json_path(&path, errors) && !path.str().starts_with(prefix) {
            checks::invalid_text(&path, errors, detail);
        }
    }
    let path = scale.field("labelSelectorPath");
    let is_below = |prefix: &str| path.str().starts_with(prefix);
    if !path.is_empty()
        && !validate_json_path(&path, errors)
        && !is_below(".spec.")
        && !is_below(".status.")
    {
        path.invalid(
            errors,
            "should be a json path under either .spec or .status",
        );
    }
}

/// Returns whether the path is invalid.
fn validate_json_path(path: &FieldView<'_>, errors: &mut ErrorList) -> bool {
    let is_wrong = !path.str().starts_with('.');
    if is_wrong {
        checks::invalid_text(path, errors, "must be a simple json path starting with .");
    }
    is_wrong
}

fn validate_columns(columns: &FieldView<'_>, errors: &mut ErrorList) {
    for column in columns.items() {
        let name = column.field("name");
        if name.is_empty() {
            name.required(errors, "");
        }
        let kind = column.field("type");
        let kinds = format!("must be one of {}", COLUMN_TYPES.join(","));
        if kind.is_empty() {
            kind.required(errors, kinds);
        } else if !COLUMN_TYPES.contains(&kind.str()) {
            checks::invalid_text(&kind, errors, kinds);
        }
        let format = column.field("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format.str()) {
            let formats = format!("must be one of {}", COLUMN_FORMATS.join(","));
            checks::invalid_text(&format, errors, formats);
        }
        let path = column.field("jsonPath");
        // Upstream uses the field name of v1beta1.
        let place = column.path().child("JSONPath");
        if path.is_empty() {
            errors.push(Error::required(&place, ""));
        } else {
            validate_json_path(&FieldView::at(path.value(), place), errors);
        }
    }
}
