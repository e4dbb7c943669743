//! Lease.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "coordination.k8s.io",
        "v1",
        "Lease",
        "leases",
        "io.k8s.api.coordination.v1.Lease",
    )
}
