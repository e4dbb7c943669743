//! Names, prefixes of names, and namespaces.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation::{self, Problems};

use crate::{NameRule, View, checks};

pub(super) fn validate(metadata: &View<'_>, rule: NameRule, errors: &mut ErrorList) {
    validate_given(metadata, rule, errors);
    let name = metadata.field("name");
    if name.is_empty() {
        name.required(errors, "name or generateName is required");
    }
}

/// Checks a name and a prefix for one as far as they are there.
pub fn validate_given(metadata: &View<'_>, rule: NameRule, errors: &mut ErrorList) {
    let prefix = metadata.field("generateName");
    if !prefix.is_empty() {
        checks::problems(&prefix, prefix_problems(rule, prefix.str()), errors);
    }
    let name = metadata.field("name");
    if !name.is_empty() {
        checks::problems(&name, name_problems(rule, name.str()), errors);
    }
}

pub(super) fn validate_namespace(metadata: &View<'_>, is_namespaced: bool, errors: &mut ErrorList) {
    let namespace = metadata.field("namespace");
    match (is_namespaced, namespace.is_empty()) {
        (true, true) => namespace.required(errors, ""),
        (true, false) => {
            checks::problems(
                &namespace,
                validation::dns1123_label(namespace.str()),
                errors,
            );
        }
        (false, true) => {}
        (false, false) => namespace.forbidden(errors, "not allowed on this type"),
    }
}

/// What is wrong with a name by a rule; a kind with a rule of its own checks it itself.
pub fn name_problems(rule: NameRule, name: &str) -> Problems {
    match rule {
        NameRule::DnsSubdomain => validation::dns1123_subdomain(name),
        NameRule::DnsLabel => validation::dns1123_label(name),
        NameRule::DnsLabel1035 => validation::dns1035_label(name),
        NameRule::PathSegment => validation::path_segment_name(name),
        NameRule::Own => Problems::new(),
    }
}

fn prefix_problems(rule: NameRule, prefix: &str) -> Problems {
    match rule {
        NameRule::PathSegment => validation::path_segment_prefix(prefix),
        _ => name_problems(rule, &with_an_end(prefix)),
    }
}

/// A prefix may end in a dash, since more is to follow. As upstream, the character before it goes unseen too.
fn with_an_end(prefix: &str) -> String {
    match prefix.len().checked_sub(2).and_then(|at| prefix.get(..at)) {
        Some(front) if prefix.ends_with('-') => format!("{front}a"),
        _ => prefix.to_owned(),
    }
}
