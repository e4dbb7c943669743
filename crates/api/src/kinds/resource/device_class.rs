//! Declares `DeviceClass`, which has no strategy of its own.

use crate::{GenerationPolicy, Kind, ResourceScope};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "resource.k8s.io",
        "v1",
        "DeviceClass",
        "deviceclasses",
        "io.k8s.api.resource.v1.DeviceClass",
    )
    .returns_deleted()
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
}
