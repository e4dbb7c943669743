//! ServiceCIDR.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "networking.k8s.io",
        "v1",
        "ServiceCIDR",
        "servicecidrs",
        "io.k8s.api.networking.v1.ServiceCIDR",
    )
    .status()
}
