//! ComponentStatus.

use crate::{Kind, Scope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "",
        "v1",
        "ComponentStatus",
        "componentstatuses",
        "io.k8s.api.core.v1.ComponentStatus",
    )
    .short(&["cs"])
    .verbs(&[Verb::Get, Verb::List])
    .not_stored()
    .deprecated("v1 ComponentStatus is deprecated in v1.19+")
}
