//! Validation of `name`, `generateName` and `namespace`.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation::{self, ValidationProblems};

use crate::{FieldView, NameRule, checks};

pub(super) fn validate(metadata: &FieldView<'_>, rule: NameRule, errors: &mut ErrorList) {
    validate_if_set(metadata, rule, errors);
    let name = metadata.field("name");
    if name.is_empty() {
        name.required(errors, "name or generateName is required");
    }
}

/// Validates `name` and `generateName` if they are set.
pub fn validate_if_set(metadata: &FieldView<'_>, rule: NameRule, errors: &mut ErrorList) {
    let prefix = metadata.field("generateName");
    if !prefix.is_empty() {
        checks::push_problems(&prefix, prefix_problems(rule, prefix.str()), errors);
    }
    let name = metadata.field("name");
    if !name.is_empty() {
        checks::push_problems(&name, name_problems(rule, name.str()), errors);
    }
}

pub(super) fn validate_namespace(
    metadata: &FieldView<'_>,
    is_namespaced: bool,
    errors: &mut ErrorList,
) {
    let namespace = metadata.field("namespace");
    match (is_namespaced, namespace.is_empty()) {
        (true, true) => namespace.required(errors, ""),
        (true, false) => {
            checks::push_problems(
                &namespace,
                validation::dns1123_label(namespace.str()),
                errors,
            );
        }
        (false, true) => {}
        (false, false) => namespace.forbidden(errors, "not allowed on this type"),
    }
}

/// Validates a name by a rule; for `KindSpecific` names the kind's strategy does it.
pub fn name_problems(rule: NameRule, name: &str) -> ValidationProblems {
    match rule {
        NameRule::DnsSubdomain => validation::dns1123_subdomain(name),
        NameRule::DnsLabel => validation::dns1123_label(name),
        NameRule::DnsLabel1035 => validation::dns1035_label(name),
        NameRule::PathSegment => validation::path_segment_name(name),
        NameRule::KindSpecific => ValidationProblems::new(),
    }
}

fn prefix_problems(rule: NameRule, prefix: &str) -> ValidationProblems {
    match rule {
        NameRule::PathSegment => validation::path_segment_prefix(prefix),
        _ => name_problems(rule, &mask_trailing_dash(prefix)),
    }
}

/// Replaces a trailing dash, which is valid in a prefix. Like upstream's `maskTrailingDash`, this also drops the
/// character before the dash.
fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.len().checked_sub(2).and_then(|at| prefix.get(..at)) {
        Some(front) if prefix.ends_with('-') => format!("{front}a"),
        _ => prefix.to_owned(),
    }
}
