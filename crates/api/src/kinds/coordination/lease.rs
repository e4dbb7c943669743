//! Lease.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use crate::gates::Feature;
use crate::{Kind, Object, Request, Rules, Scope, View, checks, fields};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "coordination.k8s.io",
        "v1",
        "Lease",
        "leases",
        "io.k8s.api.coordination.v1.Lease",
    )
    .any_finalizers()
    .updates_need_version()
    .updates_create()
    .rules(LeaseRules)
}

#[derive(Debug)]
struct LeaseRules;

/// The fields of coordinated elections.
const COORDINATED: &[&str] = &["spec.strategy", "spec.preferredHolder"];

impl Rules for LeaseRules {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        self.prepare_update(object, &Object::new(), request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        if request.gates.enabled(Feature::CoordinatedLeaderElection) {
            return;
        }
        for path in COORDINATED {
            if fields::get(old, path).is_none() {
                fields::remove(object, path);
            }
        }
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
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
        object: &View<'_>,
        _: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
    }
}

fn validate_strategy(strategy: &View<'_>, errors: &mut ErrorList) {
    // Upstream names the field twice.
    let twice = strategy.field("strategy");
    let at = View::at(strategy.value(), *twice.path());
    if strategy.str().contains('/') {
        checks::problems(&at, validation::qualified_name(strategy.str()), errors);
    } else {
        checks::one_of(&at, &["OldestEmulationVersion"], errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Gates, testing};

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
    fn coordination_has_a_gate() {
        let lease = testing::kind("coordination.k8s.io", "Lease");
        let object = json!({"spec": {"strategy": "Odd", "preferredHolder": "a"}});
        let (made, errors) = testing::create(&lease, object.clone(), &Gates::default());
        assert!(errors.is_empty(), "{errors}");
        assert_eq!(made["spec"], json!({}));
        let on = Gates::default().with(Feature::CoordinatedLeaderElection, true);
        let (_, errors) = testing::create(&lease, object, &on);
        assert_eq!(
            errors.to_string(),
            "spec.strategy.strategy: Unsupported value: \"Odd\": supported values: \"OldestEmulationVersion\""
        );
    }
}
