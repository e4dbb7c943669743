//! Field checks shared by many kinds, with upstream's error messages.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::labels::{LabelSelectorValidationOptions, Labels, Selector};
use rhumb_meta::{LabelSelector, gotext};
use serde::Deserialize as _;
use serde_json::Value;

pub(crate) use crate::checks::{at_most_100_percent, invalid_text, push_problems};
use crate::pods::semantic_equality;
use crate::{FieldView, JsonObject};

/// Rejects a negative number; absent counts as zero.
pub(crate) fn nonnegative(field: &FieldView<'_>, errors: &mut ErrorList) {
    let value = field.int().unwrap_or(0);
    if value < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(field.path(), value, detail));
    }
}

/// Applies [`nonnegative`] to each of these fields.
pub(crate) fn all_nonnegative(object: &FieldView<'_>, names: &[&str], errors: &mut ErrorList) {
    for name in names {
        nonnegative(&object.field(name), errors);
    }
}

pub(crate) fn immutable(field: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    if !semantically_equal(field, old) {
        field.invalid(errors, "field is immutable");
    }
}

/// Whether both are semantically equal (upstream: `apiequality.Semantic.DeepEqual`).
pub(crate) fn semantically_equal(ours: &FieldView<'_>, theirs: &FieldView<'_>) -> bool {
    semantically_equal_values(ours.value(), theirs.value())
}

pub(crate) fn semantically_equal_values(ours: Option<&Value>, theirs: Option<&Value>) -> bool {
    semantic_equality::semantically_equal(ours, theirs)
}

/// Requires one of these values, or absent.
pub(crate) fn one_of(field: &FieldView<'_>, supported: &[&str], errors: &mut ErrorList) {
    if field.exists() && !supported.contains(&field.str()) {
        field.not_supported(errors, supported);
    }
}

/// Adds a not-supported error; an absent value is shown as an empty string.
pub(crate) fn not_supported_text(
    field: &FieldView<'_>,
    supported: &[&str],
    errors: &mut ErrorList,
) {
    let value = BadValue::json(field.str());
    errors.push(Error::not_supported(field.path(), value, supported));
}

/// Requires a percentage string or a non-negative number.
pub(crate) fn int_or_percent(field: &FieldView<'_>, errors: &mut ErrorList) {
    match field.opt_str() {
        Some(text) if percent(text).is_none() => field.invalid(
            errors,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
             regex used for validation is '[0-9]+%')",
        ),
        Some(_) => {}
        None => nonnegative(field, errors),
    }
}

/// The number of an int-or-percent value; zero for anything else.
pub(crate) fn int_or_percent_value(field: &FieldView<'_>) -> i64 {
    match field.opt_str() {
        Some(text) => percent(text)
            .or_else(|| text.parse().ok())
            .unwrap_or_default(),
        None => field.int().unwrap_or_default(),
    }
}

fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// Renders a value of an upstream internal type as errors show it, with Go's field names and order.
pub(crate) fn go_struct_json(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// A value as JSON, `null` if it is absent.
pub(crate) fn json_text(field: &FieldView<'_>) -> String {
    field
        .value()
        .map_or_else(|| "null".to_owned(), gotext::json)
}

/// A JSON map of labels, for selector matching.
pub(crate) struct JsonLabels<'a>(pub Option<&'a JsonObject>);

impl Labels for JsonLabels<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0?.get(key)?.as_str()
    }
}

/// Decodes the label selector at `field`; `None` if absent or malformed.
pub(crate) fn label_selector(field: &FieldView<'_>) -> Option<LabelSelector> {
    LabelSelector::deserialize(field.value()?).ok()
}

/// A selector as errors show it, with upstream's field order.
pub(crate) fn selector_bad_value(field: &FieldView<'_>) -> BadValue {
    let parts = ["matchLabels", "matchExpressions"];
    let parts = parts.iter().filter_map(|part| {
        let value = field.get(part)?;
        Some(format!("{part:?}:{value}"))
    });
    BadValue::Rendered(format!("{{{}}}", parts.collect::<Vec<_>>().join(",")))
}

/// The selector at `field` for matching; an absent one matches nothing. `None` if invalid.
pub(crate) fn selector(field: &FieldView<'_>) -> Option<Selector> {
    LabelSelector::to_selector(label_selector(field).as_ref()).ok()
}

/// Validates the selector at `field`; an absent one is valid.
pub(crate) fn validate_selector(
    field: &FieldView<'_>,
    options: LabelSelectorValidationOptions,
    errors: &mut ErrorList,
) {
    if let Some(selector) = label_selector(field) {
        errors.extend(selector.validate(options, field.path()));
    }
}

/// Options that let an existing object keep label values that are invalid today.
pub(crate) fn selector_options(old: Option<&FieldView<'_>>) -> LabelSelectorValidationOptions {
    LabelSelectorValidationOptions {
        allow_invalid_label_value: old
            .and_then(label_selector)
            .is_some_and(|selector| selector.has_invalid_label_value()),
        ..LabelSelectorValidationOptions::default()
    }
}
