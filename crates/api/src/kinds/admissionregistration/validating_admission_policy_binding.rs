//! ValidatingAdmissionPolicyBinding.

use std::collections::HashSet;

use rhumb_meta::field::ErrorList;

use super::{exclusion, matching, policies};
use crate::workloads::checks;
use crate::{Generation, Kind, Object, Request, Rules, Scope, View};

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
    .rules(ValidatingAdmissionPolicyBinding)
}

#[derive(Debug)]
struct ValidatingAdmissionPolicyBinding;

impl Rules for ValidatingAdmissionPolicyBinding {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        exclusion::drop_from_matching(object, None, policies::RESOURCES, request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        exclusion::drop_from_matching(object, Some(old), policies::RESOURCES, request);
    }

    fn validate_create(&self, object: &View<'_>, request: &Request<'_>, errors: &mut ErrorList) {
        validate(object, None, request, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, Some(old), request, errors);
    }

    fn warnings(&self, object: &View<'_>, _: Option<&View<'_>>, warnings: &mut Vec<String>) {
        matching::warn_of_name(object, warnings);
    }
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
