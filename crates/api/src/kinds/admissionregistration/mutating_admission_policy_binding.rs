//! MutatingAdmissionPolicyBinding.

use rhumb_meta::field::ErrorList;

use super::{exclusion, matching, policies};
use crate::{Generation, Kind, Object, Request, Rules, Scope, View};

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
    .rules(MutatingAdmissionPolicyBinding)
}

#[derive(Debug)]
struct MutatingAdmissionPolicyBinding;

impl Rules for MutatingAdmissionPolicyBinding {
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
    matching::validate_mutating_operations(&spec.field(policies::RESOURCES), errors);
}
