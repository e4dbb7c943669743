//! Declares `ResourceClaimTemplate` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/resource/validation`.

use rhumb_meta::field::ErrorList;

use crate::validation_helpers::checks;
use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "resource.k8s.io",
        "v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        "io.k8s.api.resource.v1.ResourceClaimTemplate",
    )
    .returns_deleted()
    .strategy(ResourceClaimTemplateStrategy)
}

#[derive(Debug)]
struct ResourceClaimTemplateStrategy;

impl ResourceStrategy for ResourceClaimTemplateStrategy {
    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        checks::immutable(&object.field("spec"), &old.field("spec"), errors);
    }
}
