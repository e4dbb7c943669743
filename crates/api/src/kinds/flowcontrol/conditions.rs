//! Validation of the status conditions of flow schemas and priority levels: only the type is required.

use std::collections::HashSet;

use rhumb_meta::field::ErrorList;

use crate::FieldView;

pub(super) fn validate(status: &FieldView<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for condition in status.field("conditions").items() {
        let kind = condition.field("type");
        if !seen.insert(kind.str().to_owned()) {
            kind.duplicate(errors);
        }
        if kind.is_empty() {
            kind.required(errors, "");
        }
    }
}
