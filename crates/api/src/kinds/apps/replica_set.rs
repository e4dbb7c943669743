//! Declares `ReplicaSet` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/apps/validation`.

use rhumb_meta::field::ErrorList;

use super::workload_validation;
use crate::validation_helpers::checks;
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy, StrategyContext,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "apps",
        "v1",
        "ReplicaSet",
        "replicasets",
        "io.k8s.api.apps.v1.ReplicaSet",
    )
    .short_names(&["rs"])
    .category("all")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
    .strategy(ReplicaSetStrategy)
}

#[derive(Debug)]
struct ReplicaSetStrategy;

impl ResourceStrategy for ReplicaSetStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        crate::validation_helpers::template::drop_disabled_fields(object, None, request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        crate::validation_helpers::template::drop_disabled_fields(object, Some(old), request);
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
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status(&object.field("status"), errors);
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
    checks::all_nonnegative(spec, &["replicas", "minReadySeconds"], errors);
    workload_validation::validate_for_replica_set(spec, old, errors);
}

fn validate_status(status: &FieldView<'_>, errors: &mut ErrorList) {
    let counters = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    checks::all_nonnegative(status, &counters, errors);
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
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
