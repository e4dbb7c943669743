//! Declares `Deployment` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/apps/validation`.

use rhumb_meta::field::ErrorList;

use super::workload_validation;
use crate::validation_helpers::checks;
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    StrategyContext, fields, object_edit,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "apps",
        "v1",
        "Deployment",
        "deployments",
        "io.k8s.api.apps.v1.Deployment",
    )
    .short_names(&["deploy"])
    .category("all")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
    .status_update_preserves(&["labels"])
    .strategy(DeploymentResourceStrategy)
}

#[derive(Debug)]
struct DeploymentResourceStrategy;

impl ResourceStrategy for DeploymentResourceStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        crate::validation_helpers::template::drop_disabled_fields(object, None, request);
    }

    /// A change of annotations also increments the generation, because they are copied to the replica sets.
    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        crate::validation_helpers::template::drop_disabled_fields(object, Some(old), request);
        let path = ["metadata", "annotations"];
        if !checks::semantically_equal_values(
            object_edit::get(object, &path),
            object_edit::get(old, &path),
        ) {
            let generation = fields::int(old, "metadata.generation").unwrap_or(0);
            fields::set(object, "metadata.generation", generation + 1);
        }
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
        validate_spec(&spec, Some(&old), errors);
        checks::immutable(&spec.field("selector"), &old.field("selector"), errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status(&object.field("status"), errors);
        workload_validation::validate_collision_count(object, old, errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        if old.is_none() {
            crate::validation_helpers::template::warn_non_dns_label_name(object, warnings);
        }
        crate::validation_helpers::template::warn(object, old, warnings);
    }
}

fn validate_spec(spec: &FieldView<'_>, old: Option<&FieldView<'_>>, errors: &mut ErrorList) {
    checks::nonnegative(&spec.field("replicas"), errors);
    workload_validation::validate_for_replica_set(spec, old, errors);
    validate_strategy(&spec.field("strategy"), errors);
    let names = [
        "minReadySeconds",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ];
    checks::all_nonnegative(spec, &names, errors);
    let deadline = spec.field("progressDeadlineSeconds");
    let ready = spec.field("minReadySeconds").int().unwrap_or(0);
    if deadline.int().is_some_and(|seconds| seconds <= ready) {
        deadline.invalid(errors, "must be greater than minReadySeconds");
    }
}

fn validate_strategy(strategy: &FieldView<'_>, errors: &mut ErrorList) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "Recreate" if rolling.exists() => rolling.forbidden(
            errors,
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        "Recreate" => {}
        "RollingUpdate" if rolling.exists() => validate_rolling_update(&rolling, errors),
        "RollingUpdate" => {
            rolling.required(errors, "this should be defaulted and never be nil");
        }
        _ => workload_validation::reject_strategy(strategy, &["Recreate", "RollingUpdate"], errors),
    }
}

fn validate_rolling_update(rolling: &FieldView<'_>, errors: &mut ErrorList) {
    let unavailable = rolling.field("maxUnavailable");
    let surge = rolling.field("maxSurge");
    checks::int_or_percent(&unavailable, errors);
    checks::int_or_percent(&surge, errors);
    let is_zero = |field: &FieldView<'_>| checks::int_or_percent_value(field) == 0;
    if is_zero(&unavailable) && is_zero(&surge) {
        unavailable.invalid(errors, "may not be 0 when `maxSurge` is 0");
    }
    checks::at_most_100_percent(&unavailable, errors);
}

fn validate_status(status: &FieldView<'_>, errors: &mut ErrorList) {
    let counters = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    checks::all_nonnegative(status, &counters, errors);
    let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    let detail = "cannot be greater than status.replicas";
    workload_validation::validate_counter_at_most(status, &parts, "replicas", detail, errors);
    let detail = "cannot be greater than readyReplicas";
    workload_validation::validate_counter_at_most(
        status,
        &["availableReplicas"],
        "readyReplicas",
        detail,
        errors,
    );
}
