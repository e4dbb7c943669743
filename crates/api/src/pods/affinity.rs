//! Near which nodes and which other pods a pod wants to be.

use std::collections::{HashMap, HashSet};

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::{Options, checks, unserved};
use crate::selectors::{self, push_problems, validate_label_name, validate_label_selector};
use crate::{Object, View, edit};

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT_RANGE: &str = "must be in the range 1-100";
const WITHOUT_SELECTOR: &str = "must not be specified when labelSelector is not set";

pub(super) fn validate(affinity: &View<'_>, options: &Options, errors: &mut ErrorList) {
    let nodes = affinity.field("nodeAffinity");
    let required = nodes.field(REQUIRED);
    if required.exists() {
        let lenient = options.allow_invalid_labels_in_required_node_affinity;
        validate_node_selector(&required, lenient, errors);
    }
    for term in nodes.field(PREFERRED).items() {
        weight(&term, errors);
        // Values that no label has have always been accepted here.
        node_selector_term(&term.field("preference"), true, errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        for term in pods.field(REQUIRED).items() {
            pod_term(&term, options, errors);
        }
        for weighted in pods.field(PREFERRED).items() {
            weight(&weighted, errors);
            pod_term(&weighted.field("podAffinityTerm"), options, errors);
        }
    }
}

/// Changes each term about other pods, in the spec of a pod.
pub(super) fn change_pod_terms(spec: &mut Object, mut change: impl FnMut(&mut Object)) {
    let Some(affinity) = edit::find(spec, &["affinity"]) else {
        return;
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = edit::find(affinity, &[kind]) else {
            continue;
        };
        for term in unserved::items(pods, REQUIRED) {
            change(term);
        }
        for weighted in unserved::items(pods, PREFERRED) {
            if let Some(term) = edit::find(weighted, &["podAffinityTerm"]) {
                change(term);
            }
        }
    }
}

fn weight(term: &View<'_>, errors: &mut ErrorList) {
    if !(1..=100).contains(&term.number("weight")) {
        checks::bad_number(&term.field("weight"), errors, WEIGHT_RANGE);
    }
}

/// Checks which nodes are picked. `allow_invalid_labels` is for objects that were stored before.
pub fn validate_node_selector(
    selector: &View<'_>,
    allow_invalid_labels: bool,
    errors: &mut ErrorList,
) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        terms.required(errors, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_selector_term(&term, allow_invalid_labels, errors);
    }
}

fn node_selector_term(term: &View<'_>, allow_invalid_labels: bool, errors: &mut ErrorList) {
    for requirement in term.field("matchExpressions").items() {
        label_requirement(&requirement, allow_invalid_labels, errors);
    }
    for requirement in term.field("matchFields").items() {
        field_requirement(&requirement, errors);
    }
}

fn label_requirement(requirement: &View<'_>, allow_invalid_labels: bool, errors: &mut ErrorList) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.str() {
        "In" | "NotIn" if values.is_empty() => {
            values.required(
                errors,
                "must be specified when `operator` is 'In' or 'NotIn'",
            );
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => values.forbidden(
            errors,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "Gt" | "Lt" if values.len() != 1 => values.required(
            errors,
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => checks::bad_text(&operator, errors, "not a valid selector operator"),
    }
    validate_label_name(&requirement.field("key"), errors);
    if allow_invalid_labels {
        return;
    }
    for value in values.items() {
        let problems = validation::label_value(value.str());
        push_problems(errors, value.path(), value.str(), problems);
    }
}

fn field_requirement(requirement: &View<'_>, errors: &mut ErrorList) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.str() {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => values.required(
            errors,
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        _ => checks::bad_text(&operator, errors, "not a valid selector operator"),
    }
    let key = requirement.field("key");
    if key.str() != "metadata.name" {
        checks::bad_text(&key, errors, "not a valid field selector key");
        return;
    }
    for value in values.items() {
        checks::dns_subdomain(&value, errors);
    }
}

fn pod_term(term: &View<'_>, options: &Options, errors: &mut ErrorList) {
    let selector_options = selectors::Options {
        allow_invalid_label_value: options.allow_invalid_labels_in_selectors,
        ..selectors::Options::default()
    };
    validate_term_selectors(term, selector_options, errors);
    for name in term.field("namespaces").items() {
        let path = term.path().child("namespace");
        let problems = validation::dns1123_label(name.str());
        push_problems(errors, &path, name.str(), problems);
    }
    validate_label_keys(term, errors);
    let key = term.field("topologyKey");
    if key.is_empty() {
        key.required(errors, "can not be empty");
    }
    validate_label_name(&key, errors);
}

pub(super) fn validate_term_selectors(
    term: &View<'_>,
    options: selectors::Options,
    errors: &mut ErrorList,
) {
    for selector in ["labelSelector", "namespaceSelector"] {
        validate_label_selector(&term.field(selector), options, errors);
    }
}

/// Checks the keys whose values are taken from the pod itself.
pub(super) fn validate_label_keys(term: &View<'_>, errors: &mut ErrorList) {
    let (matching, mismatching) = (
        term.field("matchLabelKeys"),
        term.field("mismatchLabelKeys"),
    );
    if matching.is_empty() && mismatching.is_empty() {
        return;
    }
    let selector = term.field("labelSelector");
    for keys in [&matching, &mismatching] {
        if keys.is_empty() {
            continue;
        }
        if !selector.exists() {
            keys.forbidden(errors, WITHOUT_SELECTOR);
            continue;
        }
        for key in keys.items() {
            validate_label_name(&key, errors);
        }
    }
    repeated_in_selector(term, &matching, &selector, errors);
    let mismatching: HashSet<&str> = mismatching.items().map(|key| key.str()).collect();
    for key in matching.items() {
        if mismatching.contains(key.str()) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            checks::bad_text(&key, errors, detail);
        }
    }
}

/// A key may stand in the selector once, which is where it was put when the pod was made.
fn repeated_in_selector(
    term: &View<'_>,
    keys: &View<'_>,
    selector: &View<'_>,
    errors: &mut ErrorList,
) {
    let places = keys.items().enumerate();
    let places: HashMap<&str, usize> = places.map(|(index, key)| (key.str(), index)).collect();
    let labels = selector.field("matchLabels");
    let mut seen: HashSet<&str> = labels.entries().map(|(key, _)| key).collect();
    let expressions = selector.field("matchExpressions");
    for expression in expressions.items() {
        let key = expression.text("key");
        let is_new = seen.insert(key);
        if let Some(&index) = places.get(key).filter(|_| !is_new) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(Error::invalid(&term.path().index(index), key, detail));
        }
    }
}

/// Checks the keys of a spread constraint as they were checked before they became part of its selector.
pub(super) fn validate_legacy_label_keys(constraint: &View<'_>, errors: &mut ErrorList) {
    let (keys, selector) = (
        constraint.field("matchLabelKeys"),
        constraint.field("labelSelector"),
    );
    if keys.is_empty() {
        return;
    }
    if !selector.exists() {
        keys.forbidden(errors, WITHOUT_SELECTOR);
    }
    let expressions = selector.field("matchExpressions");
    let mut used: HashSet<&str> = expressions
        .items()
        .map(|expression| expression.text("key"))
        .collect();
    let labels = selector.field("matchLabels");
    used.extend(labels.entries().map(|(key, _)| key));
    for key in keys.items() {
        validate_label_name(&key, errors);
        if used.contains(key.str()) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            checks::bad_text(&key, errors, detail);
        }
    }
}
