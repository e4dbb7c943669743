//! Declares `MutatingAdmissionPolicyBinding` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/admissionregistration/validation`.

use rhumb_meta::field::ErrorList;

use super::admission_policies::AdmissionPolicyStrategy;
use super::{admission_policies, exclude_rules, matching};
use crate::{FieldView, GenerationPolicy, Kind, ResourceScope, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
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
    matching::validate_mutating_operations(
        &spec.field(admission_policies::MATCH_RESOURCES),
        errors,
    );
}
