//! Validation of `metav1.Condition` lists.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::{FieldView, checks};

const REASON_MAX_BYTES: usize = 1024;
const MESSAGE_MAX_BYTES: usize = 32 * 1024;

const REASON_FORMAT_MESSAGE: &str = concat!(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric ",
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or ",
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is ",
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
);

/// Validates conditions that require `lastTransitionTime` and `reason`.
pub fn validate(conditions: &FieldView<'_>, errors: &mut ErrorList) {
    validate_each(conditions, errors, |condition, errors| {
        for name in ["lastTransitionTime", "reason"] {
            let field = condition.field(name);
            if field.is_empty() {
                field.required(errors, "");
            }
        }
    });
}

/// Validates conditions that require only `type` and `status`.
pub fn validate_type_and_status(conditions: &FieldView<'_>, errors: &mut ErrorList) {
    validate_each(conditions, errors, |_, _| {});
}

fn validate_each(
    conditions: &FieldView<'_>,
    errors: &mut ErrorList,
    require: fn(&FieldView<'_>, &mut ErrorList),
) {
    let mut types = HashSet::new();
    for condition in conditions.items() {
        let kind = condition.field("type");
        if !types.insert(kind.str().to_owned()) {
            errors.push(Error::duplicate(kind.path(), kind.str()));
        }
        validate_one(&condition, require, errors);
    }
}

fn validate_one(
    condition: &FieldView<'_>,
    require: fn(&FieldView<'_>, &mut ErrorList),
    errors: &mut ErrorList,
) {
    let kind = condition.field("type");
    checks::push_problems(&kind, validation::qualified_name(kind.str()), errors);
    let status = condition.field("status");
    checks::one_of(&status, &["False", "True", "Unknown"], errors);
    let observed = condition.field("observedGeneration");
    if observed.int().is_some_and(|generation| generation < 0) {
        observed.invalid(errors, "must be greater than or equal to zero");
    }
    require(condition, errors);
    let reason = condition.field("reason");
    if !reason.is_empty() && !is_reason(reason.str().as_bytes()) {
        checks::invalid_text(&reason, errors, REASON_FORMAT_MESSAGE);
    }
    for (field, max_bytes) in [
        (reason, REASON_MAX_BYTES),
        (condition.field("message"), MESSAGE_MAX_BYTES),
    ] {
        if field.len() > max_bytes {
            errors.push(Error::too_long(field.path(), max_bytes));
        }
    }
}

fn is_reason(text: &[u8]) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.first().is_some_and(u8::is_ascii_alphabetic)
        && text.last().is_some_and(|&b| is_word(b))
        && text.iter().all(|&b| is_word(b) || matches!(b, b',' | b':'))
}
