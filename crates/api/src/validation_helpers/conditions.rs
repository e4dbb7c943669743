//! Validation of `metav1.Condition` lists in a status.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::checks;
use crate::FieldView;

const REASON_MAX_BYTES: usize = 1024;
const MESSAGE_MAX_BYTES: usize = 32 * 1024;

pub(crate) fn validate(conditions: &FieldView<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let kind = condition.field("type");
        if !seen.insert(kind.str().to_owned()) {
            errors.push(Error::duplicate(kind.path(), kind.str()));
        }
        validate_one(&condition, errors);
    }
}

fn validate_one(condition: &FieldView<'_>, errors: &mut ErrorList) {
    let kind = condition.field("type");
    checks::push_problems(&kind, validation::qualified_name(kind.str()), errors);
    let status = condition.field("status");
    let statuses = ["False", "True", "Unknown"];
    if !statuses.contains(&status.str()) {
        checks::not_supported_text(&status, &statuses, errors);
    }
    let generation = condition.field("observedGeneration");
    if generation.int().is_some_and(|value| value < 0) {
        generation.invalid(errors, "must be greater than or equal to zero");
    }
    let time = condition.field("lastTransitionTime");
    if time.is_empty() {
        time.required(errors, "");
    }
    validate_reason(&condition.field("reason"), errors);
    let message = condition.field("message");
    if message.len() > MESSAGE_MAX_BYTES {
        errors.push(Error::too_long(message.path(), MESSAGE_MAX_BYTES));
    }
}

fn validate_reason(reason: &FieldView<'_>, errors: &mut ErrorList) {
    let text = reason.str();
    if text.is_empty() {
        reason.required(errors, "");
        return;
    }
    if !is_reason(text) {
        checks::invalid_text(
            reason,
            errors,
            "a condition reason must start with alphabetic character, optionally followed by a string of \
             alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
             'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used \
             for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
        );
    }
    if text.len() > REASON_MAX_BYTES {
        errors.push(Error::too_long(reason.path(), REASON_MAX_BYTES));
    }
}

fn is_reason(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(is_inner)
        && !text.ends_with([',', ':'])
}
