//! StatefulSet.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "apps",
        "v1",
        "StatefulSet",
        "statefulsets",
        "io.k8s.api.apps.v1.StatefulSet",
    )
    .short(&["sts"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .scale("spec.replicas", "status.replicas", "spec.selector")
    .status()
}
