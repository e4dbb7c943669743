//! Checks that rules of many kinds are made of. Each names what is wrong at the path of what it is given.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::validation::Problems;

use crate::{View, selectors};

pub const IMMUTABLE: &str = "field is immutable";
pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// A text that is refused, shown quoted even if it is absent.
pub fn invalid_text(view: &View<'_>, errors: &mut ErrorList, detail: impl Into<String>) {
    errors.push(Error::invalid(view.path(), view.str(), detail));
}

/// Every problem that a format has found in a text.
pub fn problems(view: &View<'_>, found: Problems, errors: &mut ErrorList) {
    for problem in found {
        invalid_text(view, errors, problem);
    }
}

pub fn not_negative(view: &View<'_>, errors: &mut ErrorList) {
    if view.int().is_some_and(|value| value < 0) {
        view.invalid(errors, NOT_NEGATIVE);
    }
}

/// A field that keeps its value for good.
pub fn immutable(view: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    immutable_with(view, old, errors, IMMUTABLE);
}

pub fn immutable_with(view: &View<'_>, old: &View<'_>, errors: &mut ErrorList, detail: &str) {
    let are_both_empty = view.is_empty() && old.is_empty();
    if !are_both_empty && !view.same_as(old) {
        view.invalid(errors, detail);
    }
}

/// As [`immutable`], for a text that is shown as `""` when it is absent.
pub fn immutable_text(view: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    if view.str() != old.str() {
        invalid_text(view, errors, IMMUTABLE);
    }
}

/// One of an enumeration; `values` in the order the error lists them.
pub fn one_of(view: &View<'_>, values: &[&str], errors: &mut ErrorList) {
    if !values.contains(&view.str()) {
        let shown = BadValue::json(view.str());
        errors.push(Error::not_supported(view.path(), shown, values));
    }
}

/// As [`one_of`], for a field that upstream has as a plain text: the error shows it as one.
pub fn one_of_texts(view: &View<'_>, values: &[&str], errors: &mut ErrorList) {
    if !values.contains(&view.str()) {
        errors.push(Error::not_supported(view.path(), view.str(), values));
    }
}

/// How a selector is judged that replaces old ones: if one of those was wrong, values that no label can have pass.
pub fn selector_options<'a>(old: impl IntoIterator<Item = &'a View<'a>>) -> selectors::Options {
    let strictest = selectors::Options::default();
    let mut wrong = ErrorList::new();
    for selector in old {
        selectors::validate_label_selector(selector, strictest, &mut wrong);
    }
    selectors::Options {
        allow_invalid_label_value: !wrong.is_empty(),
        ..strictest
    }
}

pub fn port_number(view: &View<'_>, errors: &mut ErrorList) {
    in_range(view, 1, 65535, errors);
}

pub fn in_range(view: &View<'_>, low: i64, high: i64, errors: &mut ErrorList) {
    let value = view.int().unwrap_or_default();
    if !(low..=high).contains(&value) {
        errors.push(Error::invalid(view.path(), value, between(low, high)));
    }
}

pub fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// What is wrong with the name of a port.
pub fn port_name_problems(name: &str) -> Problems {
    let bytes = name.as_bytes();
    let is_allowed = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let mut found = Problems::new();
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

/// What is wrong with a key of a ConfigMap or a Secret.
pub fn data_key_problems(key: &str) -> Problems {
    let bytes = key.as_bytes();
    let is_allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let mut found = Problems::new();
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

/// Whether a text is a number and a percent sign.
pub fn is_percent(text: &str) -> bool {
    text.strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

const PERCENT_TEXT: &str = concat!(
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used ",
    "for validation is '[0-9]+%')"
);

/// A number that is not negative, or a percentage.
pub fn not_negative_or_percent(view: &View<'_>, errors: &mut ErrorList) {
    match view.opt_str() {
        Some(text) if !is_percent(text) => invalid_text(view, errors, PERCENT_TEXT),
        Some(_) => {}
        None => not_negative(view, errors),
    }
}

/// A percentage of at most 100, if it is one.
pub fn at_most_100_percent(view: &View<'_>, errors: &mut ErrorList) {
    let text = view.str();
    let percent = text.strip_suffix('%').filter(|_| is_percent(text));
    // What does not fit a number is more than a hundred.
    if percent.is_some_and(|digits| digits.parse::<u64>().map_or(true, |value| value > 100)) {
        invalid_text(view, errors, "must not be greater than 100%");
    }
}
