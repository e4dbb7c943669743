//! Validation of node affinity, pod affinity and pod anti-affinity.

use std::collections::{HashMap, HashSet};

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::{PodValidationOptions, checks, disabled_fields};
use crate::selectors::{self, push_problems, validate_label_name, validate_label_selector};
use crate::{FieldView, JsonObject, object_edit};

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT_RANGE: &str = "must be in the range 1-100";
const LABEL_SELECTOR_REQUIRED: &str = "must not be specified when labelSelector is not set";

pub(super) fn validate(
    affinity: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let nodes = affinity.field("nodeAffinity");
    let required = nodes.field(REQUIRED);
    if required.exists() {
        let lenient = options.allow_invalid_labels_in_required_node_affinity;
        validate_node_selector(&required, lenient, errors);
    }
    for term in nodes.field(PREFERRED).items() {
        validate_weight(&term, errors);
        // As upstream, preferred terms accept invalid label values.
        node_selector_term(&term.field("preference"), true, errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        for term in pods.field(REQUIRED).items() {
            validate_pod_term(&term, options, errors);
        }
        for weighted in pods.field(PREFERRED).items() {
            validate_weight(&weighted, errors);
            validate_pod_term(&weighted.field("podAffinityTerm"), options, errors);
        }
    }
}

/// Calls `change` for each pod affinity and anti-affinity term of a pod spec.
pub(super) fn for_each_pod_term_mut(
    spec: &mut JsonObject,
    mut change: impl FnMut(&mut JsonObject),
) {
    let Some(affinity) = object_edit::find_object(spec, &["affinity"]) else {
        return;
    };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = object_edit::find_object(affinity, &[kind]) else {
            continue;
        };
        for term in disabled_fields::items_at_path(pods, REQUIRED) {
            change(term);
        }
        for weighted in disabled_fields::items_at_path(pods, PREFERRED) {
            if let Some(term) = object_edit::find_object(weighted, &["podAffinityTerm"]) {
                change(term);
            }
        }
    }
}

fn validate_weight(term: &FieldView<'_>, errors: &mut ErrorList) {
    if !(1..=100).contains(&term.number("weight")) {
        checks::invalid_number(&term.field("weight"), errors, WEIGHT_RANGE);
    }
}

/// Validates a node selector. `allow_invalid_labels` is set if the old object has invalid label values.
pub fn validate_node_selector(
    selector: &FieldView<'_>,
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

fn node_selector_term(term: &FieldView<'_>, allow_invalid_labels: bool, errors: &mut ErrorList) {
    for requirement in term.field("matchExpressions").items() {
        label_requirement(&requirement, allow_invalid_labels, errors);
    }
    for requirement in term.field("matchFields").items() {
        field_requirement(&requirement, errors);
    }
}

fn label_requirement(
    requirement: &FieldView<'_>,
    allow_invalid_labels: bool,
    errors: &mut ErrorList,
) {
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
        _ => checks::invalid_text(&operator, errors, "not a valid selector operator"),
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

fn field_requirement(requirement: &FieldView<'_>, errors: &mut ErrorList) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.str() {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => values.required(
            errors,
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        _ => checks::invalid_text(&operator, errors, "not a valid selector operator"),
    }
    let key = requirement.field("key");
    if key.str() != "metadata.name" {
        checks::invalid_text(&key, errors, "not a valid field selector key");
        return;
    }
    for value in values.items() {
        checks::dns_subdomain(&value, errors);
    }
}

fn validate_pod_term(term: &FieldView<'_>, options: &PodValidationOptions, errors: &mut ErrorList) {
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
    term: &FieldView<'_>,
    options: selectors::Options,
    errors: &mut ErrorList,
) {
    for selector in ["labelSelector", "namespaceSelector"] {
        validate_label_selector(&term.field(selector), options, errors);
    }
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`, whose values come from the labels of the pod.
pub(super) fn validate_label_keys(term: &FieldView<'_>, errors: &mut ErrorList) {
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
            keys.forbidden(errors, LABEL_SELECTOR_REQUIRED);
            continue;
        }
        for key in keys.items() {
            validate_label_name(&key, errors);
        }
    }
    validate_key_not_repeated(term, &matching, &selector, errors);
    let mismatching: HashSet<&str> = mismatching.items().map(|key| key.str()).collect();
    for key in matching.items() {
        if mismatching.contains(key.str()) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            checks::invalid_text(&key, errors, detail);
        }
    }
}

/// Rejects a key that the selector has more than once: creation merges each key into the selector once.
fn validate_key_not_repeated(
    term: &FieldView<'_>,
    keys: &FieldView<'_>,
    selector: &FieldView<'_>,
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

/// Validates `matchLabelKeys` of a spread constraint as before they were merged into its selector.
pub(super) fn validate_legacy_label_keys(constraint: &FieldView<'_>, errors: &mut ErrorList) {
    let (keys, selector) = (
        constraint.field("matchLabelKeys"),
        constraint.field("labelSelector"),
    );
    if keys.is_empty() {
        return;
    }
    if !selector.exists() {
        keys.forbidden(errors, LABEL_SELECTOR_REQUIRED);
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
            checks::invalid_text(&key, errors, detail);
        }
    }
}
