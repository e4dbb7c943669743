//! PersistentVolume.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "",
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        "io.k8s.api.core.v1.PersistentVolume",
    )
    .short(&["pv"])
    .status()
}
