//! DeviceClass.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "resource.k8s.io",
        "v1",
        "DeviceClass",
        "deviceclasses",
        "io.k8s.api.resource.v1.DeviceClass",
    )
    .returns_deleted()
    .generation(Generation::Of(&["spec"]))
}
