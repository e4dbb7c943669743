//! IngressClass.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "networking.k8s.io",
        "v1",
        "IngressClass",
        "ingressclasses",
        "io.k8s.api.networking.v1.IngressClass",
    )
    .generation(Generation::Of(&["spec"]))
}
