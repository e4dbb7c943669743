//! PriorityClass.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        "io.k8s.api.scheduling.v1.PriorityClass",
    )
    .short(&["pc"])
}
