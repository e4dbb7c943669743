//! ReplicaSet.

use rhumb_meta::field::ErrorList;

use super::template;
use crate::workloads::checks;
use crate::{Generation, Kind, Object, Request, Rules, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "apps",
        "v1",
        "ReplicaSet",
        "replicasets",
        "io.k8s.api.apps.v1.ReplicaSet",
    )
    .short(&["rs"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
    .rules(ReplicaSet)
}

#[derive(Debug)]
struct ReplicaSet;

impl Rules for ReplicaSet {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        crate::workloads::template::drop_unserved_fields(object, None, request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        crate::workloads::template::drop_unserved_fields(object, Some(old), request);
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
        _: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status(&object.field("status"), errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        if old.is_none() {
            crate::workloads::template::warn_of_name(object, warnings);
        }
        crate::workloads::template::warn(object, old, warnings);
    }
}

fn validate_spec(spec: &View<'_>, old: Option<&View<'_>>, errors: &mut ErrorList) {
    checks::all_nonnegative(spec, &["replicas", "minReadySeconds"], errors);
    template::validate_for_replica_set(spec, old, errors);
}

fn validate_status(status: &View<'_>, errors: &mut ErrorList) {
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
