//! FlowSchema.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "FlowSchema",
        "flowschemas",
        "io.k8s.api.flowcontrol.v1.FlowSchema",
    )
    .generation(Generation::Of(&["spec"]))
    .status()
}
