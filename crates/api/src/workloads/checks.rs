//! Checks that many kinds share, in upstream's words.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::labels::{Labels, Selector, ValidationOptions};
use rhumb_meta::{LabelSelector, gotext};
use serde::Deserialize as _;
use serde_json::Value;

pub(crate) use crate::checks::{at_most_100_percent, invalid_text, problems};
use crate::pods::equality;
use crate::{Object, View};

/// A number that is absent counts as zero.
pub(crate) fn nonnegative(field: &View<'_>, errors: &mut ErrorList) {
    let value = field.int().unwrap_or(0);
    if value < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(field.path(), value, detail));
    }
}

/// Each of these fields is not negative.
pub(crate) fn all_nonnegative(object: &View<'_>, names: &[&str], errors: &mut ErrorList) {
    for name in names {
        nonnegative(&object.field(name), errors);
    }
}

pub(crate) fn immutable(field: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    if !same(field, old) {
        field.invalid(errors, "field is immutable");
    }
}

/// Whether both mean the same, although one is as it was sent and the other as it was stored.
pub(crate) fn same(ours: &View<'_>, theirs: &View<'_>) -> bool {
    same_values(ours.value(), theirs.value())
}

pub(crate) fn same_values(ours: Option<&Value>, theirs: Option<&Value>) -> bool {
    equality::same(ours, theirs)
}

/// The value is one of these, or absent.
pub(crate) fn one_of(field: &View<'_>, supported: &[&str], errors: &mut ErrorList) {
    if field.exists() && !supported.contains(&field.str()) {
        field.not_supported(errors, supported);
    }
}

/// Refuses an enumeration's value; an absent one is shown as empty text.
pub(crate) fn not_supported_text(field: &View<'_>, supported: &[&str], errors: &mut ErrorList) {
    let value = BadValue::json(field.str());
    errors.push(Error::not_supported(field.path(), value, supported));
}

/// A percentage as text, or a number that is not negative.
pub(crate) fn int_or_percent(field: &View<'_>, errors: &mut ErrorList) {
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

/// The number before the percent sign, or the number itself; zero for anything else.
pub(crate) fn int_or_percent_value(field: &View<'_>) -> i64 {
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

/// A value of one of upstream's internal types as errors show it: with the names and the order of Go's fields.
pub(crate) fn go_struct(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// A value as JSON, `null` if it is absent.
pub(crate) fn json_text(field: &View<'_>) -> String {
    field
        .value()
        .map_or_else(|| "null".to_owned(), gotext::json)
}

/// The labels of an object or a template.
pub(crate) struct LabelsOf<'a>(pub Option<&'a Object>);

impl Labels for LabelsOf<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0?.get(key)?.as_str()
    }
}

/// The label selector at `field`, if it is there and has the form of one.
pub(crate) fn label_selector(field: &View<'_>) -> Option<LabelSelector> {
    LabelSelector::deserialize(field.value()?).ok()
}

/// A selector as errors show it, in the order of upstream's fields.
pub(crate) fn selector_shown(field: &View<'_>) -> BadValue {
    let parts = ["matchLabels", "matchExpressions"];
    let parts = parts.iter().filter_map(|part| {
        let value = field.get(part)?;
        Some(format!("{part:?}:{value}"))
    });
    BadValue::Rendered(format!("{{{}}}", parts.collect::<Vec<_>>().join(",")))
}

/// What the selector at `field` picks; an absent one picks nothing. `None` if it cannot be matched with.
pub(crate) fn selector(field: &View<'_>) -> Option<Selector> {
    LabelSelector::to_selector(label_selector(field).as_ref()).ok()
}

/// Everything that is wrong with the selector at `field`; an absent one is right.
pub(crate) fn validate_selector(
    field: &View<'_>,
    options: ValidationOptions,
    errors: &mut ErrorList,
) {
    if let Some(selector) = label_selector(field) {
        errors.extend(selector.validate(options, field.path()));
    }
}

/// Whether an old object may keep label values that validation would refuse today.
pub(crate) fn selector_options(old: Option<&View<'_>>) -> ValidationOptions {
    ValidationOptions {
        allow_invalid_label_value: old
            .and_then(label_selector)
            .is_some_and(|selector| selector.has_invalid_label_value()),
        ..ValidationOptions::default()
    }
}
