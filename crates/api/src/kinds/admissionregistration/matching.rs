//! Which requests webhooks and policies want to see: rules, selectors and conditions.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::ValidationOptions;
use rhumb_meta::validation;

use super::exclusion;
use crate::View;
use crate::workloads::checks;

const CONDITIONS_MAX: usize = 64;
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

/// A list of rules, each with the operations it is about.
pub(super) fn validate_rules(rules: &View<'_>, errors: &mut ErrorList) {
    for rule in rules.items() {
        validate_rule(&rule, Empty::IsMissing, errors);
    }
}

/// What a rule means that has no groups, versions, operations or resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Empty {
    IsMissing,
    IsAll,
}

/// A rule that has names of objects too.
pub(super) fn validate_named_rule(rule: &View<'_>, empty: Empty, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for name in rule.field("resourceNames").items() {
        checks::problems(&name, validation::path_segment_name(name.str()), errors);
        if !seen.insert(name.str().to_owned()) {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
    }
    validate_rule(rule, empty, errors);
}

fn validate_rule(rule: &View<'_>, empty: Empty, errors: &mut ErrorList) {
    let operations = rule.field("operations");
    validate_wildcard(&operations, "operations", empty, errors);
    for operation in operations.items() {
        checks::one_of(&operation, OPERATIONS, errors);
    }
    validate_wildcard(&rule.field("apiGroups"), "API groups", empty, errors);
    let versions = rule.field("apiVersions");
    validate_wildcard(&versions, "API versions", empty, errors);
    for version in versions.items().filter(View::is_empty) {
        version.required(errors, "");
    }
    validate_resources(&rule.field("resources"), empty, errors);
    checks::one_of(
        &rule.field("scope"),
        &["*", "Cluster", "Namespaced"],
        errors,
    );
}

/// A list in which a star stands alone.
fn validate_wildcard(list: &View<'_>, what: &str, empty: Empty, errors: &mut ErrorList) {
    if list.is_empty() && empty == Empty::IsMissing {
        list.required(errors, "");
    }
    if list.len() > 1 && list.items().any(|item| item.str() == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        list.invalid(errors, detail);
    }
}

/// `pods`, `pods/log`, `pods/*`, `*/scale`, `*` or `*/*`: none that another has in it already.
fn validate_resources(resources: &View<'_>, empty: Empty, errors: &mut ErrorList) {
    if resources.is_empty() && empty == Empty::IsMissing {
        resources.required(errors, "");
    }
    let mut all_of_resource = HashSet::new();
    let mut all_of_subresource = HashSet::new();
    let mut has_plain = false;
    for item in resources.items() {
        let name = item.str().to_owned();
        if name.is_empty() {
            item.required(errors, "");
            continue;
        }
        let Some((resource, sub)) = name.split_once('/') else {
            has_plain = name != "*";
            continue;
        };
        if all_of_resource.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {name}");
            checks::invalid_text(&item, errors, detail);
        }
        if all_of_subresource.contains(sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {name}");
            checks::invalid_text(&item, errors, detail);
        }
        if sub == "*" {
            all_of_resource.insert(resource.to_owned());
        }
        if resource == "*" {
            all_of_subresource.insert(sub.to_owned());
        }
    }
    let has = |name: &str| resources.items().any(|item| item.str() == name);
    if resources.len() > 1 && has("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        resources.invalid(errors, detail);
    }
    if has("*") && has_plain {
        resources.invalid(
            errors,
            "if '*' is present, must not specify other resources without subresources",
        );
    }
}

/// The `matchConstraints` of a policy, and the `matchResources` of a binding.
pub(super) fn validate_match_resources(
    matching: &View<'_>,
    context: exclusion::Context<'_>,
    errors: &mut ErrorList,
) {
    if !matching.exists() {
        return;
    }
    one_of_required(&matching.field("matchPolicy"), MATCH_POLICIES, errors);
    for name in ["namespaceSelector", "objectSelector"] {
        let selector = matching.field(name);
        if !selector.exists() {
            selector.required(errors, "");
        }
        checks::validate_selector(&selector, ValidationOptions::default(), errors);
    }
    for rule in matching.field("resourceRules").items() {
        validate_named_rule(&rule, Empty::IsMissing, errors);
    }
    exclusion::validate_of_matching(matching, context, errors);
}

/// What a mutating policy may be about: there is nothing to change in what is deleted.
pub(super) fn validate_mutating_operations(matching: &View<'_>, errors: &mut ErrorList) {
    let rules = matching.field("resourceRules");
    let place = rules.path().child("operations");
    for rule in rules.items() {
        for operation in rule.field("operations").items() {
            let supported = ["*", "CONNECT", "CREATE", "UPDATE"];
            if !supported.contains(&operation.str()) {
                let value = operation.bad_value();
                errors.push(Error::not_supported(&place, value, &supported));
            }
        }
    }
}

pub(super) fn one_of_required(field: &View<'_>, supported: &[&str], errors: &mut ErrorList) {
    if field.exists() {
        checks::one_of(field, supported, errors);
    } else {
        field.required(errors, "");
    }
}

/// Conditions in CEL. Their expressions are compiled by the part of the server that evaluates them.
pub(super) fn validate_conditions(conditions: &View<'_>, errors: &mut ErrorList) {
    if conditions.len() > CONDITIONS_MAX {
        let count = Some(conditions.len());
        errors.push(Error::too_many(conditions.path(), count, CONDITIONS_MAX));
    }
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let expression = condition.field("expression");
        if expression.str().trim().is_empty() {
            expression.required(errors, "");
        }
        let name = condition.field("name");
        if name.is_empty() {
            name.required(errors, "");
            continue;
        }
        checks::problems(&name, validation::qualified_name(name.str()), errors);
        if !seen.insert(name.str().to_owned()) {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
    }
}

/// Names that are kept for configurations that come from files.
pub(super) fn warn_of_name(object: &View<'_>, warnings: &mut Vec<String>) {
    let metadata = object.field("metadata");
    if metadata.field("name").str().ends_with(".static.k8s.io") {
        warnings.push(
            "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based \
             configurations and cannot be managed via the API"
                .to_owned(),
        );
    }
}
