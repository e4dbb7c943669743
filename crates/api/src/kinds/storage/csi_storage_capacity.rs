//! CSIStorageCapacity.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "storage.k8s.io",
        "v1",
        "CSIStorageCapacity",
        "csistoragecapacities",
        "io.k8s.api.storage.v1.CSIStorageCapacity",
    )
    .updates_need_version()
}
