//! Validation helpers shared by many kinds. Each adds its errors at the path of the field it is given.
//!
//! Messages are those of upstream's `apimachinery/pkg/util/validation` and `pkg/apis/core/validation`.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::validation::ValidationProblems;

use crate::{FieldView, selectors};

pub const IMMUTABLE: &str = "field is immutable";
pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Adds an invalid-value error that shows the field as a quoted string, `""` if it is absent.
pub fn invalid_text(view: &FieldView<'_>, errors: &mut ErrorList, detail: impl Into<String>) {
    errors.push(Error::invalid(view.path(), view.str(), detail));
}

/// Adds one invalid-value error per problem found in a string.
pub fn push_problems(view: &FieldView<'_>, found: ValidationProblems, errors: &mut ErrorList) {
    for problem in found {
        invalid_text(view, errors, problem);
    }
}

pub fn not_negative(view: &FieldView<'_>, errors: &mut ErrorList) {
    if view.int().is_some_and(|value| value < 0) {
        view.invalid(errors, NOT_NEGATIVE);
    }
}

/// Rejects a change of an immutable field; absent and empty count as equal.
pub fn immutable(view: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    immutable_with(view, old, errors, IMMUTABLE);
}

pub fn immutable_with(
    view: &FieldView<'_>,
    old: &FieldView<'_>,
    errors: &mut ErrorList,
    detail: &str,
) {
    let are_both_empty = view.is_empty() && old.is_empty();
    if !are_both_empty && !view.same_as(old) {
        view.invalid(errors, detail);
    }
}

/// Like [`immutable`], for a string that errors show as `""` when absent.
pub fn immutable_text(view: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    if view.str() != old.str() {
        invalid_text(view, errors, IMMUTABLE);
    }
}

/// Requires one of `values`, which the error lists in the given order.
pub fn one_of(view: &FieldView<'_>, values: &[&str], errors: &mut ErrorList) {
    if !values.contains(&view.str()) {
        let shown = BadValue::json(view.str());
        errors.push(Error::not_supported(view.path(), shown, values));
    }
}

/// Like [`one_of`], for a field whose Go type is a plain string, which errors show differently.
pub fn one_of_texts(view: &FieldView<'_>, values: &[&str], errors: &mut ErrorList) {
    if !values.contains(&view.str()) {
        errors.push(Error::not_supported(view.path(), view.str(), values));
    }
}

/// Options for validating an updated selector: if an old selector was invalid, invalid label values are allowed.
pub fn selector_validation_options<'a>(
    old: impl IntoIterator<Item = &'a FieldView<'a>>,
) -> selectors::Options {
    let strict = selectors::Options::default();
    let mut wrong = ErrorList::new();
    for selector in old {
        selectors::validate_label_selector(selector, strict, &mut wrong);
    }
    selectors::Options {
        allow_invalid_label_value: !wrong.is_empty(),
        ..strict
    }
}

pub fn port_number(view: &FieldView<'_>, errors: &mut ErrorList) {
    in_range(view, 1, 65535, errors);
}

pub fn in_range(view: &FieldView<'_>, low: i64, high: i64, errors: &mut ErrorList) {
    let value = view.int().unwrap_or_default();
    if !(low..=high).contains(&value) {
        errors.push(Error::invalid(
            view.path(),
            value,
            between_message(low, high),
        ));
    }
}

pub fn between_message(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Validates a port name (IANA_SVC_NAME).
pub fn port_name_problems(name: &str) -> ValidationProblems {
    let bytes = name.as_bytes();
    let is_allowed = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let mut found = ValidationProblems::new();
    if bytes.len() > 15 {
        found.push("must be no more than 15 characters");
    }
    if bytes.is_empty() || !bytes.iter().all(is_allowed) {
        found.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !bytes.iter().any(u8::is_ascii_lowercase) {
        found.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        found.push("must not contain consecutive hyphens");
    }
    if bytes.first() == Some(&b'-') || bytes.last() == Some(&b'-') {
        found.push("must not begin or end with a hyphen");
    }
    found
}

/// Validates a key of a ConfigMap or Secret.
pub fn data_key_problems(key: &str) -> ValidationProblems {
    let bytes = key.as_bytes();
    let is_allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let mut found = ValidationProblems::new();
    if bytes.len() > 253 {
        found.push("must be no more than 253 characters");
    }
    if bytes.is_empty() || !bytes.iter().all(is_allowed) {
        found.push(concat!(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or ",
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        ));
    }
    match key {
        "." => found.push("must not be '.'"),
        ".." => found.push("must not be '..'"),
        _ if key.starts_with("..") => found.push("must not start with '..'"),
        _ => {}
    }
    found
}

/// Whether a string is a number followed by a percent sign.
pub fn is_percent(text: &str) -> bool {
    text.strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

const PERCENT_FORMAT_MESSAGE: &str = concat!(
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used ",
    "for validation is '[0-9]+%')"
);

/// Requires a non-negative number or a percentage.
pub fn not_negative_or_percent(view: &FieldView<'_>, errors: &mut ErrorList) {
    match view.opt_str() {
        Some(text) if !is_percent(text) => invalid_text(view, errors, PERCENT_FORMAT_MESSAGE),
        Some(_) => {}
        None => not_negative(view, errors),
    }
}

/// Rejects a percentage above 100; other values pass.
pub fn at_most_100_percent(view: &FieldView<'_>, errors: &mut ErrorList) {
    let text = view.str();
    let percent = text.strip_suffix('%').filter(|_| is_percent(text));
    // Digits that overflow u64 are more than 100.
    if percent.is_some_and(|digits| digits.parse::<u64>().map_or(true, |value| value > 100)) {
        invalid_text(view, errors, "must not be greater than 100%");
    }
}
