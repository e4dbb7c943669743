//! Validation of what webhooks and policies match: resource rules, selectors and match conditions.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::labels::LabelSelectorValidationOptions;
use rhumb_meta::validation;

use super::exclude_rules;
use super::policy_expressions;
use crate::FieldView;
use crate::validation_helpers::checks;

const CONDITIONS_MAX: usize = 64;
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

/// Validates a list of rules with operations (`RuleWithOperations`).
pub(super) fn validate_rules(rules: &FieldView<'_>, errors: &mut ErrorList) {
    for rule in rules.items() {
        validate_rule(&rule, EmptyRuleField::Rejected, errors);
    }
}

/// Meaning of an empty list of groups, versions, operations or resources in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmptyRuleField {
    Rejected,
    MatchesAll,
}

/// Validates a rule that may also list `resourceNames` (`NamedRuleWithOperations`).
pub(super) fn validate_named_rule(
    rule: &FieldView<'_>,
    empty: EmptyRuleField,
    errors: &mut ErrorList,
) {
    let mut seen = HashSet::new();
    for name in rule.field("resourceNames").items() {
        checks::push_problems(&name, validation::path_segment_name(name.str()), errors);
        if !seen.insert(name.str().to_owned()) {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
    }
    validate_rule(rule, empty, errors);
}

fn validate_rule(rule: &FieldView<'_>, empty: EmptyRuleField, errors: &mut ErrorList) {
    let operations = rule.field("operations");
    validate_wildcard(&operations, "operations", empty, errors);
    for operation in operations.items() {
        checks::one_of(&operation, OPERATIONS, errors);
    }
    validate_wildcard(&rule.field("apiGroups"), "API groups", empty, errors);
    let versions = rule.field("apiVersions");
    validate_wildcard(&versions, "API versions", empty, errors);
    for version in versions.items().filter(FieldView::is_empty) {
        version.required(errors, "");
    }
    validate_resources(&rule.field("resources"), empty, errors);
    checks::one_of(
        &rule.field("scope"),
        &["*", "Cluster", "Namespaced"],
        errors,
    );
}

/// Validates a list in which `*` must be the only item.
fn validate_wildcard(
    list: &FieldView<'_>,
    what: &str,
    empty: EmptyRuleField,
    errors: &mut ErrorList,
) {
    if list.is_empty() && empty == EmptyRuleField::Rejected {
        list.required(errors, "");
    }
    if list.len() > 1 && list.items().any(|item| item.str() == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        list.invalid(errors, detail);
    }
}

/// Validates `pods`, `pods/log`, `pods/*`, `*/scale`, `*` or `*/*`; none may be covered by another item.
fn validate_resources(resources: &FieldView<'_>, empty: EmptyRuleField, errors: &mut ErrorList) {
    if resources.is_empty() && empty == EmptyRuleField::Rejected {
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

/// Validates the `matchConstraints` of a policy or the `matchResources` of a binding.
pub(super) fn validate_match_resources(
    matching: &FieldView<'_>,
    context: exclude_rules::ExclusionValidationContext<'_>,
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
        checks::validate_selector(&selector, LabelSelectorValidationOptions::default(), errors);
    }
    for rule in matching.field("resourceRules").items() {
        validate_named_rule(&rule, EmptyRuleField::Rejected, errors);
    }
    exclude_rules::validate_match_resources_rules(matching, context, errors);
}

/// Rejects operations that a mutating policy cannot match: a deleted object cannot be mutated.
pub(super) fn validate_mutating_operations(matching: &FieldView<'_>, errors: &mut ErrorList) {
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

pub(super) fn one_of_required(field: &FieldView<'_>, supported: &[&str], errors: &mut ErrorList) {
    if field.exists() {
        checks::one_of(field, supported, errors);
    } else {
        field.required(errors, "");
    }
}

/// Validates CEL match conditions.
pub(super) fn validate_match_conditions(
    conditions: &FieldView<'_>,
    has_params: bool,
    errors: &mut ErrorList,
) {
    if conditions.len() > CONDITIONS_MAX {
        let count = Some(conditions.len());
        errors.push(Error::too_many(conditions.path(), count, CONDITIONS_MAX));
    }
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let expression = condition.field("expression");
        if expression.str().trim().is_empty() {
            expression.required(errors, "");
        } else {
            policy_expressions::check_match_condition(&expression, has_params, errors);
        }
        let name = condition.field("name");
        if name.is_empty() {
            name.required(errors, "");
            continue;
        }
        checks::push_problems(&name, validation::qualified_name(name.str()), errors);
        if !seen.insert(name.str().to_owned()) {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
    }
}

/// Warns of names that are reserved for configurations loaded from files.
pub(super) fn warn_of_reserved_name(object: &FieldView<'_>, warnings: &mut Vec<String>) {
    let metadata = object.field("metadata");
    if metadata.field("name").str().ends_with(".static.k8s.io") {
        warnings.push(
            "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based \
             configurations and cannot be managed via the API"
                .to_owned(),
        );
    }
}
