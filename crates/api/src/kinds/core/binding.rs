//! Binding.

use crate::{Kind, Scope, Verb};

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
}
