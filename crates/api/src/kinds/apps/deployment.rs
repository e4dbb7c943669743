//! Deployment.

use rhumb_meta::field::ErrorList;

use super::template;
use crate::workloads::checks;
use crate::{Generation, Kind, Object, Request, Rules, Scope, View, edit, fields};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "apps",
        "v1",
        "Deployment",
        "deployments",
        "io.k8s.api.apps.v1.Deployment",
    )
    .short(&["deploy"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
    .status_keeps(&["labels"])
    .rules(Deployment)
}

#[derive(Debug)]
struct Deployment;

impl Rules for Deployment {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        crate::workloads::template::drop_unserved_fields(object, None, request);
    }

    /// Annotations count for the generation too: they are copied to the replica sets.
    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        crate::workloads::template::drop_unserved_fields(object, Some(old), request);
        let path = ["metadata", "annotations"];
        if !checks::same_values(edit::get(object, &path), edit::get(old, &path)) {
            let generation = fields::int(old, "metadata.generation").unwrap_or(0);
            fields::set(object, "metadata.generation", generation + 1);
        }
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
        validate_spec(&spec, Some(&old), errors);
        checks::immutable(&spec.field("selector"), &old.field("selector"), errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status(&object.field("status"), errors);
        template::validate_collision_count(object, old, errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        if old.is_none() {
            crate::workloads::template::warn_of_name(object, warnings);
        }
        crate::workloads::template::warn(object, old, warnings);
    }
}

fn validate_spec(spec: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    checks::nonnegative(&spec.field("replicas"), errors);
    template::validate_for_replica_set(spec, old, errors);
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

fn validate_strategy(strategy: &View<'_>, errors: &mut ErrorList) {
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
        _ => template::unsupported_strategy(strategy, &["Recreate", "RollingUpdate"], errors),
    }
}

fn validate_rolling_update(rolling: &View<'_>, errors: &mut ErrorList) {
    let unavailable = rolling.field("maxUnavailable");
    let surge = rolling.field("maxSurge");
    checks::int_or_percent(&unavailable, errors);
    checks::int_or_percent(&surge, errors);
    let is_zero = |field: &View<'_>| checks::int_or_percent_value(field) == 0;
    if is_zero(&unavailable) && is_zero(&surge) {
        unavailable.invalid(errors, "may not be 0 when `maxSurge` is 0");
    }
    checks::at_most_100_percent(&unavailable, errors);
}

fn validate_status(status: &View<'_>, errors: &mut ErrorList) {
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
    template::at_most(status, &parts, "replicas", detail, errors);
    let detail = "cannot be greater than readyReplicas";
    template::at_most(
        status,
        &["availableReplicas"],
        "readyReplicas",
        detail,
        errors,
    );
}
