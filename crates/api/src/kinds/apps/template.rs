//! What the owners of pods ask of their selector and their pod template.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::gotext;
use rhumb_meta::labels::{Selector, ValidationOptions};

use crate::View;
use crate::workloads::checks::{self, LabelsOf};

/// A selector that is there, picks something and is right.
pub(super) fn validate_selector(selector: &View<'_>, owner: &str, errors: &mut ErrorList) {
    if !selector.exists() {
        selector.required(errors, "");
        return;
    }
    checks::validate_selector(selector, ValidationOptions::default(), errors);
    if selects_everything(selector) {
        selector.invalid(errors, format!("empty selector is invalid for {owner}"));
    }
}

/// Whether the selector is there but names nothing to select by.
pub(super) fn selects_everything(selector: &View<'_>) -> bool {
    selector.exists()
        && selector.field("matchLabels").is_empty()
        && selector.field("matchExpressions").is_empty()
}

/// The owner's selector picks the pods that are made of its template. One that picks everything is refused
/// elsewhere.
pub(super) fn validate_labels(selector: &Selector, template: &View<'_>, errors: &mut ErrorList) {
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    if !selector.is_everything() && !selector.matches(&LabelsOf(labels.object())) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

/// Pods that are replaced when they end restart their containers for ever.
pub(super) fn validate_runs_forever(template: &View<'_>, owner: &str, errors: &mut ErrorList) {
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

/// The selector and the template of a replica set, and of a deployment, which makes replica sets.
pub(super) fn validate_for_replica_set(
    spec: &View<'_>,
    old: Option<&View<'_>>,
    errors: &mut ErrorList,
) {
    let field = spec.field("selector");
    validate_selector(&field, "deployment", errors);
    let Some(selector) = checks::selector(&field) else {
        let shown = checks::selector_shown(&field);
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
    crate::workloads::template::validate(&template, old.as_ref(), errors);
    validate_runs_forever(&template, "ReplicaSet", errors);
}

/// No counter of a status exceeds another.
pub(super) fn at_most(
    status: &View<'_>,
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

/// Collisions are counted to make new names, so the count never goes back.
pub(super) fn validate_collision_count(object: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
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

/// Refuses the strategy of a deployment or a daemon set as a whole, as upstream's internal type.
pub(super) fn unsupported_strategy(
    strategy: &View<'_>,
    supported: &[&str],
    errors: &mut ErrorList,
) {
    let value = checks::go_struct(&[
        ("Type", gotext::json(strategy.field("type").str())),
        (
            "RollingUpdate",
            internal_rolling_update(&strategy.field("rollingUpdate")),
        ),
    ]);
    let value = BadValue::Rendered(value);
    errors.push(Error::not_supported(strategy.path(), value, supported));
}

/// Both of its fields are no pointers, so they are never absent.
fn internal_rolling_update(rolling: &View<'_>) -> String {
    if !rolling.exists() {
        return "null".to_owned();
    }
    let or_zero = |field: &View<'_>| match field.value() {
        Some(value) => gotext::json(value),
        None => "0".to_owned(),
    };
    checks::go_struct(&[
        ("MaxUnavailable", or_zero(&rolling.field("maxUnavailable"))),
        ("MaxSurge", or_zero(&rolling.field("maxSurge"))),
    ])
}
