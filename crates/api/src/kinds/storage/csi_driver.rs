//! CSIDriver.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "CSIDriver",
        "csidrivers",
        "io.k8s.api.storage.v1.CSIDriver",
    )
    .updates_need_version()
}
