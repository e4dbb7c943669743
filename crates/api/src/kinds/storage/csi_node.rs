//! CSINode.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "CSINode",
        "csinodes",
        "io.k8s.api.storage.v1.CSINode",
    )
    .updates_need_version()
}
