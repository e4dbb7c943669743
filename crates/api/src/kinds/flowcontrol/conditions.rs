//! The conditions of flow schemas and priority levels, which need no more than a type.

use std::collections::HashSet;

use rhumb_meta::field::ErrorList;

use crate::View;

pub(super) fn validate(status: &View<'_>, errors: &mut ErrorList) {
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
