//! Event.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "Event",
        "events",
        "io.k8s.api.core.v1.Event",
    )
    .short(&["ev"])
}
