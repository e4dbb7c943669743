//! ConfigMap.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "ConfigMap",
        "configmaps",
        "io.k8s.api.core.v1.ConfigMap",
    )
    .short(&["cm"])
}
