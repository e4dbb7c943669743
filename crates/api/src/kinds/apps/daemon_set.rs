//! DaemonSet.

use rhumb_meta::field::ErrorList;
use serde_json::{Value, json};

use super::template;
use crate::workloads::checks;
use crate::{Generation, Kind, Object, Request, Rules, Scope, View, edit};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "apps",
        "v1",
        "DaemonSet",
        "daemonsets",
        "io.k8s.api.apps.v1.DaemonSet",
    )
    .short(&["ds"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .status()
    .rules(DaemonSet)
}

/// Where the generation of the template is kept: the field is gone from v1, but an annotation still says it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(Debug)]
struct DaemonSet;

impl Rules for DaemonSet {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        crate::workloads::template::drop_unserved_fields(object, None, request);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        crate::workloads::template::drop_unserved_fields(object, Some(old), request);
        let path = ["spec", "template"];
        let is_same = checks::same_values(edit::get(object, &path), edit::get(old, &path));
        let generation = template_generation(old) + i64::from(!is_same);
        set_template_generation(object, generation);
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate_spec(&object.field("spec"), None, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        checks::immutable(&spec.field("selector"), &old.field("selector"), errors);
        validate_spec(&spec, Some(&old), errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let counters = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        checks::all_nonnegative(&object.field("status"), &counters, errors);
        template::validate_collision_count(object, old, errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        crate::workloads::template::warn(object, old, warnings);
    }
}

fn template_generation(object: &Object) -> i64 {
    let annotation = edit::get(object, &["metadata", "annotations", TEMPLATE_GENERATION]);
    annotation
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn set_template_generation(object: &mut Object, generation: i64) {
    edit::within(object, &["metadata", "annotations"], |annotations| {
        annotations.insert(
            TEMPLATE_GENERATION.to_owned(),
            json!(generation.to_string()),
        );
    });
}

fn validate_spec(spec: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    let field = spec.field("selector");
    let old_selector = old.map(|old| old.field("selector"));
    let options = checks::selector_options(old_selector.as_ref());
    checks::validate_selector(&field, options, errors);
    let template = spec.field("template");
    if let Some(selector) = checks::selector(&field) {
        template::validate_labels(&selector, &template, errors);
    }
    if template::selects_everything(&field) {
        field.invalid(errors, "empty selector is invalid for daemonset");
    }
    let old = old.map(|old| old.field("template"));
    crate::workloads::template::validate(&template, old.as_ref(), errors);
    template::validate_runs_forever(&template, "DaemonSet", errors);
    checks::nonnegative(&spec.field("minReadySeconds"), errors);
    validate_strategy(&spec.field("updateStrategy"), errors);
    checks::nonnegative(&spec.field("revisionHistoryLimit"), errors);
}

fn validate_strategy(strategy: &View<'_>, errors: &mut ErrorList) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "OnDelete" => {}
        "RollingUpdate" if rolling.exists() => validate_rolling_update(&rolling, errors),
        "RollingUpdate" => rolling.required(errors, ""),
        _ => template::unsupported_strategy(strategy, &["RollingUpdate", "OnDelete"], errors),
    }
}

/// Exactly one of both is more than nothing.
fn validate_rolling_update(rolling: &View<'_>, errors: &mut ErrorList) {
    let unavailable = rolling.field("maxUnavailable");
    let surge = rolling.field("maxSurge");
    checks::int_or_percent(&unavailable, errors);
    checks::int_or_percent(&surge, errors);
    checks::at_most_100_percent(&unavailable, errors);
    checks::at_most_100_percent(&surge, errors);
    let is_set = |field: &View<'_>| checks::int_or_percent_value(field) != 0;
    match (is_set(&unavailable), is_set(&surge)) {
        (true, true) => surge.invalid(errors, "may not be set when maxUnavailable is non-zero"),
        (false, false) => unavailable.required(errors, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}
