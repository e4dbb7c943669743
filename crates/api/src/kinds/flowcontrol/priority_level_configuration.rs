//! PriorityLevelConfiguration.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
    )
    .generation(Generation::Of(&["spec"]))
    .status()
}
