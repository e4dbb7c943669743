//! ReplicationController.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        "io.k8s.api.core.v1.ReplicationController",
    )
    .short(&["rc"])
    .category("all")
    .storage("controllers")
    .generation(Generation::Of(&["spec"]))
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
}
