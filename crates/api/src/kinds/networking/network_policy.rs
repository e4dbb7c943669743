//! NetworkPolicy.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        "io.k8s.api.networking.v1.NetworkPolicy",
    )
    .short(&["netpol"])
    .generation(Generation::Of(&["spec"]))
}
