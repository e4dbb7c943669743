//! Endpoints.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "Endpoints",
        "endpoints",
        "io.k8s.api.core.v1.Endpoints",
    )
    .short(&["ep"])
    .storage("services/endpoints")
}
