//! Declares `ComponentStatus`, which has no strategy of its own.

use crate::{Kind, ResourceScope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "",
        "v1",
        "ComponentStatus",
        "componentstatuses",
        "io.k8s.api.core.v1.ComponentStatus",
    )
    .short_names(&["cs"])
    .verbs(&[Verb::Get, Verb::List])
    .not_stored()
    .deprecated("v1 ComponentStatus is deprecated in v1.19+")
}
