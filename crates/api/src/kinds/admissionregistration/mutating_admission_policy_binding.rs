//! MutatingAdmissionPolicyBinding.

use rhumb_meta::field::ErrorList;

use super::policies::PolicyRules;
use super::{exclusion, matching, policies};
use crate::{Generation, Kind, Request, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding",
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
    matching::validate_mutating_operations(&spec.field(policies::RESOURCES), errors);
}
