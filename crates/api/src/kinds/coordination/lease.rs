//! Declares `Lease` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/coordination/validation`.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use crate::feature_gates::Feature;
use crate::{
    FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks, fields,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "coordination.k8s.io",
        "v1",
        "Lease",
        "leases",
        "io.k8s.api.coordination.v1.Lease",
    )
    .allow_any_finalizer()
    .requires_resource_version()
    .creates_on_update()
    .strategy(LeaseStrategy)
}

#[derive(Debug)]
struct LeaseStrategy;

/// Fields of coordinated leader election.
const COORDINATED_ELECTION_FIELDS: &[&str] = &["spec.strategy", "spec.preferredHolder"];

impl ResourceStrategy for LeaseStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        self.prepare_update(object, &JsonObject::new(), request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        if request.gates.enabled(Feature::CoordinatedLeaderElection) {
            return;
        }
        for path in COORDINATED_ELECTION_FIELDS {
            if fields::get(old, path).is_none() {
                fields::remove(object, path);
            }
        }
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let spec = object.field("spec");
        let duration = spec.field("leaseDurationSeconds");
        if duration.int().is_some_and(|seconds| seconds <= 0) {
            duration.invalid(errors, "must be greater than 0");
        }
        checks::not_negative(&spec.field("leaseTransitions"), errors);
        let strategy = spec.field("strategy");
        if strategy.exists() {
            validate_strategy(&strategy, errors);
        }
        let holder = spec.field("preferredHolder");
        if !holder.is_empty() && strategy.is_empty() {
            holder.forbidden(errors, "may only be specified if `strategy` is defined");
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
    }
}

fn validate_strategy(strategy: &FieldView<'_>, errors: &mut ErrorList) {
    // Upstream's path repeats the field name.
    let twice = strategy.field("strategy");
    let at = FieldView::at(strategy.value(), *twice.path());
    if strategy.str().contains('/') {
        checks::push_problems(&at, validation::qualified_name(strategy.str()), errors);
    } else {
        checks::one_of(&at, &["OldestEmulationVersion"], errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{FeatureGates, testing};

    #[test]
    fn durations_and_transitions_are_in_bounds() {
        let lease = testing::kind("coordination.k8s.io", "Lease");
        let good = json!({"spec": {"leaseDurationSeconds": 1, "leaseTransitions": 0}});
        testing::check_create(&lease, good, &[]);
        testing::check_create(
            &lease,
            json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
            &[
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
    }

    #[test]
    fn coordinated_leader_election_fields_require_the_gate() {
        let lease = testing::kind("coordination.k8s.io", "Lease");
        let object = json!({"spec": {"strategy": "Odd", "preferredHolder": "a"}});
        let (made, errors) = testing::create(&lease, object.clone(), &FeatureGates::default());
        assert!(errors.is_empty(), "{errors}");
        assert_eq!(made["spec"], json!({}));
        let on = FeatureGates::default().with(Feature::CoordinatedLeaderElection, true);
        let (_, errors) = testing::create(&lease, object, &on);
        assert_eq!(
            errors.to_string(),
            "spec.strategy.strategy: Unsupported value: \"Odd\": supported values: \"OldestEmulationVersion\""
        );
    }
}
