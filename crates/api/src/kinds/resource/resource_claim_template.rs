//! ResourceClaimTemplate.

use rhumb_meta::field::ErrorList;

use crate::workloads::checks;
use crate::{Kind, Request, Rules, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "resource.k8s.io",
        "v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        "io.k8s.api.resource.v1.ResourceClaimTemplate",
    )
    .returns_deleted()
    .rules(ResourceClaimTemplate)
}

#[derive(Debug)]
struct ResourceClaimTemplate;

impl Rules for ResourceClaimTemplate {
    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        checks::immutable(&object.field("spec"), &old.field("spec"), errors);
    }
}
