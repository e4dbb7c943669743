//! Validation shared by the workload kinds: selector, pod template, update strategy and status counters.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::gotext;
use rhumb_meta::labels::{LabelSelectorValidationOptions, Selector};

use crate::FieldView;
use crate::validation_helpers::checks::{self, JsonLabels};

/// Requires a valid, non-empty selector.
pub(super) fn validate_selector(selector: &FieldView<'_>, owner: &str, errors: &mut ErrorList) {
    if !selector.exists() {
        selector.required(errors, "");
        return;
    }
    checks::validate_selector(selector, LabelSelectorValidationOptions::default(), errors);
    if selects_everything(selector) {
        selector.invalid(errors, format!("empty selector is invalid for {owner}"));
    }
}

/// Returns whether the selector is present and empty, so that it matches everything.
pub(super) fn selects_everything(selector: &FieldView<'_>) -> bool {
    selector.exists()
        && selector.field("matchLabels").is_empty()
        && selector.field("matchExpressions").is_empty()
}

/// Requires the selector to match the labels of the template. An empty selector is rejected elsewhere.
pub(super) fn validate_labels(
    selector: &Selector,
    template: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    if !selector.is_everything() && !selector.matches(&JsonLabels(labels.object())) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

/// Requires `restartPolicy: Always` and no `activeDeadlineSeconds`, because the controller replaces ended pods.
pub(super) fn validate_restart_always(
    template: &FieldView<'_>,
    owner: &str,
    errors: &mut ErrorList,
) {
    let spec = template.field("spec");
    let restart = spec.field("restartPolicy");
    if restart.str() != "Always" {
        checks::not_supported_text(&restart, &["Always"], errors);
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.exists() {
        deadline.forbidden(
            errors,
            format!("activeDeadlineSeconds in {owner} is not Supported"),
        );
    }
}

/// Validates the selector and the template of a replica set or a deployment.
pub(super) fn validate_for_replica_set(
    spec: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    errors: &mut ErrorList,
) {
    let field = spec.field("selector");
    validate_selector(&field, "deployment", errors);
    let Some(selector) = checks::selector(&field) else {
        let shown = checks::selector_bad_value(&field);
        errors.push(Error::invalid(
            field.path(),
            shown,
            "invalid label selector",
        ));
        return;
    };
    let template = spec.field("template");
    validate_labels(&selector, &template, errors);
    let old = old.map(|old| old.field("template"));
    crate::validation_helpers::template::validate(&template, old.as_ref(), errors);
    validate_restart_always(&template, "ReplicaSet", errors);
}

/// Rejects a status counter that exceeds another one.
pub(super) fn validate_counter_at_most(
    status: &FieldView<'_>,
    names: &[&str],
    limit: &str,
    detail: &str,
    errors: &mut ErrorList,
) {
    let limit = status.field(limit).int().unwrap_or(0);
    for name in names {
        let field = status.field(name);
        let value = field.int().unwrap_or(0);
        if value > limit {
            errors.push(Error::invalid(field.path(), value, detail));
        }
    }
}

/// Rejects a decrease of `collisionCount`, from which the names of new revisions are derived.
pub(super) fn validate_collision_count(
    object: &FieldView<'_>,
    old: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let (status, old) = (object.field("status"), old.field("status"));
    let count = status.field("collisionCount");
    let Some(before) = old.field("collisionCount").int() else {
        return;
    };
    if count.int().is_none_or(|now| now < before) {
        let now = count.int().unwrap_or(0);
        errors.push(Error::invalid(count.path(), now, "cannot be decremented"));
    }
}

/// Rejects the strategy of a deployment or a daemon set, rendered as upstream's internal Go type.
pub(super) fn reject_strategy(
    strategy: &FieldView<'_>,
    supported: &[&str],
    errors: &mut ErrorList,
) {
    let value = checks::go_struct_json(&[
        ("Type", gotext::json(strategy.field("type").str())),
        (
            "RollingUpdate",
            go_rolling_update(&strategy.field("rollingUpdate")),
        ),
    ]);
    let value = BadValue::Rendered(value);
    errors.push(Error::not_supported(strategy.path(), value, supported));
}

/// Renders the value as upstream's internal Go type, whose fields are not pointers and so never absent.
fn go_rolling_update(rolling: &FieldView<'_>) -> String {
    if !rolling.exists() {
        return "null".to_owned();
    }
    let or_zero = |field: &FieldView<'_>| match field.value() {
        Some(value) => gotext::json(value),
        None => "0".to_owned(),
    };
    checks::go_struct_json(&[
        ("MaxUnavailable", or_zero(&rolling.field("maxUnavailable"))),
        ("MaxSurge", or_zero(&rolling.field("maxSurge"))),
    ])
}
