//! Ingress.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "networking.k8s.io",
        "v1",
        "Ingress",
        "ingresses",
        "io.k8s.api.networking.v1.Ingress",
    )
    .short(&["ing"])
    .storage("ingress")
    .generation(Generation::Of(&["spec"]))
    .status()
}
