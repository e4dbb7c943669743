//! PersistentVolumeClaim.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "io.k8s.api.core.v1.PersistentVolumeClaim",
    )
    .short(&["pvc"])
    .status()
}
