//! VolumeAttributesClass.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        "io.k8s.api.storage.v1.VolumeAttributesClass",
    )
    .short(&["vac"])
}
