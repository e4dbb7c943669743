//! Declares `DaemonSet` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/apps/validation`.

use rhumb_meta::field::ErrorList;
use serde_json::{Value, json};

use super::workload_validation;
use crate::validation_helpers::checks;
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    StrategyContext, object_edit,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "apps",
        "v1",
        "DaemonSet",
        "daemonsets",
        "io.k8s.api.apps.v1.DaemonSet",
    )
    .short_names(&["ds"])
    .category("all")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .status()
    .strategy(DaemonSetStrategy)
}

/// Annotation with the template generation, which has no field in v1.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(Debug)]
struct DaemonSetStrategy;

impl ResourceStrategy for DaemonSetStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        crate::validation_helpers::template::drop_disabled_fields(object, None, request);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        crate::validation_helpers::template::drop_disabled_fields(object, Some(old), request);
        let path = ["spec", "template"];
        let is_same = checks::semantically_equal_values(
            object_edit::get(object, &path),
            object_edit::get(old, &path),
        );
        let generation = template_generation(old) + i64::from(!is_same);
        set_template_generation(object, generation);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), None, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        checks::immutable(&spec.field("selector"), &old.field("selector"), errors);
        validate_spec(&spec, Some(&old), errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
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
        workload_validation::validate_collision_count(object, old, errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        crate::validation_helpers::template::warn(object, old, warnings);
    }
}

fn template_generation(object: &JsonObject) -> i64 {
    let annotation = object_edit::get(object, &["metadata", "annotations", TEMPLATE_GENERATION]);
    annotation
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn set_template_generation(object: &mut JsonObject, generation: i64) {
    object_edit::edit_child(object, &["metadata", "annotations"], |annotations| {
        annotations.insert(
            TEMPLATE_GENERATION.to_owned(),
            json!(generation.to_string()),
        );
    });
}

fn validate_spec(spec: &FieldView<'_>, old: Option<&FieldView<'_>>, errors: &mut ErrorList) {
    let field = spec.field("selector");
    let old_selector = old.map(|old| old.field("selector"));
    let options = checks::selector_options(old_selector.as_ref());
    checks::validate_selector(&field, options, errors);
    let template = spec.field("template");
    if let Some(selector) = checks::selector(&field) {
        workload_validation::validate_labels(&selector, &template, errors);
    }
    if workload_validation::selects_everything(&field) {
        field.invalid(errors, "empty selector is invalid for daemonset");
    }
    let old = old.map(|old| old.field("template"));
    crate::validation_helpers::template::validate(&template, old.as_ref(), errors);
    workload_validation::validate_restart_always(&template, "DaemonSet", errors);
    checks::nonnegative(&spec.field("minReadySeconds"), errors);
    validate_strategy(&spec.field("updateStrategy"), errors);
    checks::nonnegative(&spec.field("revisionHistoryLimit"), errors);
}

fn validate_strategy(strategy: &FieldView<'_>, errors: &mut ErrorList) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "OnDelete" => {}
        "RollingUpdate" if rolling.exists() => validate_rolling_update(&rolling, errors),
        "RollingUpdate" => rolling.required(errors, ""),
        _ => workload_validation::reject_strategy(strategy, &["RollingUpdate", "OnDelete"], errors),
    }
}

/// Requires exactly one of `maxUnavailable` and `maxSurge` to be non-zero.
fn validate_rolling_update(rolling: &FieldView<'_>, errors: &mut ErrorList) {
    let unavailable = rolling.field("maxUnavailable");
    let surge = rolling.field("maxSurge");
    checks::int_or_percent(&unavailable, errors);
    checks::int_or_percent(&surge, errors);
    checks::at_most_100_percent(&unavailable, errors);
    checks::at_most_100_percent(&surge, errors);
    let is_set = |field: &FieldView<'_>| checks::int_or_percent_value(field) != 0;
    match (is_set(&unavailable), is_set(&surge)) {
        (true, true) => surge.invalid(errors, "may not be set when maxUnavailable is non-zero"),
        (false, false) => unavailable.required(errors, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}
