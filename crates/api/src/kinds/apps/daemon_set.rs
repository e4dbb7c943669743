//! DaemonSet.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "apps",
        "v1",
        "DaemonSet",
        "daemonsets",
        "io.k8s.api.apps.v1.DaemonSet",
    )
    .short(&["ds"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .status()
}
