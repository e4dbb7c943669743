//! StorageClass.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "StorageClass",
        "storageclasses",
        "io.k8s.api.storage.v1.StorageClass",
    )
    .short(&["sc"])
}
