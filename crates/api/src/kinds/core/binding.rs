//! Declares `Binding` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::ErrorList;

use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext, Verb, pods};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "Binding",
        "bindings",
        "io.k8s.api.core.v1.Binding",
    )
    .verbs(&[Verb::Create])
    .not_stored()
    .strategy(BindingStrategy)
}

#[derive(Debug)]
struct BindingStrategy;

impl ResourceStrategy for BindingStrategy {
    fn validate_create(
        &self,
        binding: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        pods::validate_binding(binding, errors);
    }
}
