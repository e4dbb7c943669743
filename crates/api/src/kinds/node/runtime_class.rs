//! RuntimeClass.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        "runtimeclasses",
        "io.k8s.api.node.v1.RuntimeClass",
    )
}
