//! VolumeAttachment.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        "io.k8s.api.storage.v1.VolumeAttachment",
    )
    .updates_need_version()
    .status()
}
