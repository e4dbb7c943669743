//! Declares `ValidatingAdmissionPolicyBinding` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/admissionregistration/validation`.

use std::collections::HashSet;

use rhumb_meta::field::ErrorList;

use super::admission_policies::AdmissionPolicyStrategy;
use super::{admission_policies, exclude_rules};
use crate::validation_helpers::checks;
use crate::{FieldView, GenerationPolicy, Kind, ResourceScope, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    )
    .allow_any_finalizer()
    .category("api-extensions")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .requires_resource_version()
    .strategy(AdmissionPolicyStrategy {
        matching: admission_policies::MATCH_RESOURCES,
        validate,
        validate_status: |_, _| {},
    })
}

fn validate(
    object: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let spec = object.field("spec");
    let context = exclude_rules::ExclusionValidationContext::new(
        old,
        admission_policies::MATCH_RESOURCES,
        request,
    );
    admission_policies::validate_common_binding_fields(&spec, context, errors);
    validate_actions(&spec.field("validationActions"), errors);
}

fn validate_actions(actions: &FieldView<'_>, errors: &mut ErrorList) {
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
