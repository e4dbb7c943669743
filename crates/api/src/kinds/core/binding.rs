//! Binding.

use rhumb_meta::field::ErrorList;

use crate::{Kind, Request, Rules, Scope, Verb, View, pods};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "Binding",
        "bindings",
        "io.k8s.api.core.v1.Binding",
    )
    .verbs(&[Verb::Create])
    .not_stored()
    .rules(BindingRules)
}

#[derive(Debug)]
struct BindingRules;

impl Rules for BindingRules {
    fn validate_create(&self, binding: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        pods::validate_binding(binding, errors);
    }
}
