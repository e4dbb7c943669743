//! EndpointSlice.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        "io.k8s.api.discovery.v1.EndpointSlice",
    )
}
