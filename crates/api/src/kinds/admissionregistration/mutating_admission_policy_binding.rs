//! MutatingAdmissionPolicyBinding.

use rhumb_meta::field::ErrorList;

use super::{matching, policies};
use crate::{Generation, Kind, Request, Rules, Scope, View};

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
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate(&object.field("spec"), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        _: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate(&object.field("spec"), errors);
    }

    fn warnings(&self, object: &View<'_>, _: Option<&View<'_>>, warnings: &mut Vec<String>) {
        matching::warn_of_name(object, warnings);
    }
}

fn validate(spec: &View<'_>, errors: &mut ErrorList) {
    policies::validate_binding(spec, errors);
    matching::validate_mutating_operations(&spec.field("matchResources"), errors);
}
