//! ValidatingAdmissionPolicyBinding.

use std::collections::HashSet;

use rhumb_meta::field::ErrorList;

use super::policies::PolicyRules;
use super::{exclusion, policies};
use crate::workloads::checks;
use crate::{Generation, Kind, Request, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    )
    .any_finalizers()
    .category("api-extensions")
    .generation(Generation::Of(&["spec"]))
    .updates_need_version()
    .rules(PolicyRules {
        matching: policies::RESOURCES,
        validate,
        validate_status: |_, _| {},
    })
}

fn validate(
    object: &View<'_>,
    old: Option<&View<'_>>,
    request: &Request<'_>,
    errors: &mut ErrorList,
) {
    let spec = object.field("spec");
    let context = exclusion::Context::new(old, policies::RESOURCES, request);
    policies::validate_binding(&spec, context, errors);
    validate_actions(&spec.field("validationActions"), errors);
}

fn validate_actions(actions: &View<'_>, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for action in actions.items() {
        checks::one_of(&action, &["Audit", "Deny", "Warn"], errors);
        if !seen.insert(action.str().to_owned()) {
            action.duplicate(errors);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        actions.invalid(
            errors,
            "must not contain both Deny and Warn (repeating the same validation failure information in the API \
             response and headers serves no purpose)",
        );
    }
    if seen.is_empty() {
        actions.required(errors, "at least one validation action is required");
    }
}
