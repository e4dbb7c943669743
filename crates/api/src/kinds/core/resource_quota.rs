//! ResourceQuota.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "ResourceQuota",
        "resourcequotas",
        "io.k8s.api.core.v1.ResourceQuota",
    )
    .short(&["quota"])
    .status()
}
