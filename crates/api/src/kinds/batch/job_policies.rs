//! Validation of `podFailurePolicy` and `successPolicy` of a job.

use std::collections::HashSet;

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::validation;

use super::{completion_indexes, job_spec};
use crate::FieldView;
use crate::validation_helpers::checks;

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const CONDITIONS_MAX: usize = 20;
const SUCCEEDED_INDEXES_MAX_BYTES: usize = 64 * 1024;

pub(super) fn validate_pod_failure_policy(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let policy = spec.field("podFailurePolicy");
    let rules = policy.field("rules");
    if rules.len() > RULES_MAX {
        errors.push(Error::too_many(rules.path(), Some(rules.len()), RULES_MAX));
    }
    let containers = container_names(spec);
    for rule in rules.items() {
        validate_failure_rule(spec, &rule, &containers, errors);
    }
}

fn container_names(spec: &FieldView<'_>) -> HashSet<String> {
    let template = spec.field("template");
    let pod = template.field("spec");
    let names_of = |list: &str| -> Vec<String> {
        let containers = pod.field(list);
        let names = containers.items();
        names
            .map(|container| container.field("name").str().to_owned())
            .collect()
    };
    let mut names: HashSet<String> = names_of("containers").into_iter().collect();
    names.extend(names_of("initContainers"));
    names
}

fn validate_failure_rule(
    spec: &FieldView<'_>,
    rule: &FieldView<'_>,
    containers: &HashSet<String>,
    errors: &mut ErrorList,
) {
    let action = rule.field("action");
    if action.str() == "FailIndex" {
        if !spec.field("backoffLimitPerIndex").exists() {
            action.invalid(errors, "requires the backoffLimitPerIndex to be set");
        }
    } else {
        one_of_required(
            &action,
            &["Count", "FailIndex", "FailJob", "Ignore"],
            errors,
        );
    }
    let codes = rule.field("onExitCodes");
    let conditions = rule.field("onPodConditions");
    if codes.exists() {
        validate_exit_codes(&codes, containers, errors);
    }
    validate_conditions(&conditions, errors);
    let detail = match (codes.exists(), !conditions.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(Error::invalid(rule.path(), BadValue::Omitted, detail));
}

fn one_of_required(field: &FieldView<'_>, supported: &[&str], errors: &mut ErrorList) {
    if field.is_empty() {
        let supported: Vec<String> = supported
            .iter()
            .map(|value| format!("\"{value}\""))
            .collect();
        field.required(errors, format!("valid values: [{}]", supported.join(" ")));
    } else {
        checks::one_of(field, supported, errors);
    }
}

fn validate_conditions(conditions: &FieldView<'_>, errors: &mut ErrorList) {
    if conditions.len() > CONDITIONS_MAX {
        let count = Some(conditions.len());
        errors.push(Error::too_many(conditions.path(), count, CONDITIONS_MAX));
    }
    for pattern in conditions.items() {
        let kind = pattern.field("type");
        checks::push_problems(&kind, validation::qualified_name(kind.str()), errors);
        one_of_required(
            &pattern.field("status"),
            &["False", "True", "Unknown"],
            errors,
        );
    }
}

fn validate_exit_codes(
    codes: &FieldView<'_>,
    containers: &HashSet<String>,
    errors: &mut ErrorList,
) {
    let operator = codes.field("operator");
    one_of_required(&operator, &["In", "NotIn"], errors);
    let container = codes.field("containerName");
    if container.exists() && !containers.contains(container.str()) {
        let detail = "must be one of the container or initContainer names in the pod template";
        checks::invalid_text(&container, errors, detail);
    }
    let values = codes.field("values");
    if values.is_empty() {
        values.invalid(errors, "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.push(Error::too_many(
            values.path(),
            Some(values.len()),
            EXIT_CODES_MAX,
        ));
    }
    let mut seen = HashSet::new();
    let mut previous = None;
    let mut is_ordered = true;
    for value in values.items() {
        let code = value.int().unwrap_or(0);
        if operator.str() == "In" && code == 0 {
            value.invalid(errors, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            value.duplicate(errors);
        }
        is_ordered &= previous.is_none_or(|previous| previous <= code);
        previous = Some(code);
    }
    if !is_ordered {
        values.invalid(errors, "must be ordered");
    }
}

pub(super) fn validate_success_policy(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let policy = spec.field("successPolicy");
    if !policy.exists() {
        return;
    }
    if !job_spec::is_indexed(spec) {
        let value = BadValue::Rendered(go_success_policy(&policy));
        let detail = "requires indexed completion mode";
        errors.push(Error::invalid(policy.path(), value, detail));
        return;
    }
    let rules = policy.field("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        rules.required(errors, detail);
    }
    if rules.len() > RULES_MAX {
        errors.push(Error::too_many(rules.path(), Some(rules.len()), RULES_MAX));
    }
    let completions = spec.field("completions").int().unwrap_or(0);
    for rule in rules.items() {
        validate_success_rule(&rule, completions, errors);
    }
}

/// Renders the policy as upstream's internal Go type.
fn go_success_policy(policy: &FieldView<'_>) -> String {
    let rules = policy.field("rules");
    let rules: Vec<String> = rules
        .items()
        .map(|rule| {
            checks::go_struct_json(&[
                (
                    "SucceededIndexes",
                    checks::json_text(&rule.field("succeededIndexes")),
                ),
                (
                    "SucceededCount",
                    checks::json_text(&rule.field("succeededCount")),
                ),
            ])
        })
        .collect();
    checks::go_struct_json(&[("Rules", format!("[{}]", rules.join(",")))])
}

fn validate_success_rule(rule: &FieldView<'_>, completions: i64, errors: &mut ErrorList) {
    let indexes = rule.field("succeededIndexes");
    let count = rule.field("succeededCount");
    if !indexes.exists() && !count.exists() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        rule.required(errors, detail);
    }
    let mut total = None;
    if let Some(text) = indexes.opt_str() {
        if text.len() > SUCCEEDED_INDEXES_MAX_BYTES {
            errors.push(Error::too_long(indexes.path(), SUCCEEDED_INDEXES_MAX_BYTES));
        }
        let counted = completion_indexes::count_indexes(text, completions);
        if let Err(error) = &counted {
            let detail = format!("error parsing succeededIndexes: {error}");
            checks::invalid_text(&indexes, errors, detail);
        }
        total = Some(counted.unwrap_or(0));
    }
    let Some(wanted) = count.int() else {
        return;
    };
    checks::nonnegative(&count, errors);
    if wanted > completions {
        count.invalid(
            errors,
            format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            ),
        );
    }
    if let Some(total) = total.filter(|total| wanted > *total) {
        count.invalid(
            errors,
            format!(
                "must be less than or equal to {total} (the number of indexes in the specified \
                 succeededIndexes field)"
            ),
        );
    }
}
