//! ResourceSlice.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "resource.k8s.io",
        "v1",
        "ResourceSlice",
        "resourceslices",
        "io.k8s.api.resource.v1.ResourceSlice",
    )
}
