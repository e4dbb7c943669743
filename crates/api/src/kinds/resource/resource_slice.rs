//! ResourceSlice.

use crate::{Generation, Kind, Scope, Selectable, fields};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "resource.k8s.io",
        "v1",
        "ResourceSlice",
        "resourceslices",
        "io.k8s.api.resource.v1.ResourceSlice",
    )
    .generation(Generation::Of(&["spec"]))
    .selectable(&[
        Selectable {
            name: "spec.driver",
            value: |object| fields::text(object, "spec.driver"),
        },
        Selectable {
            name: "spec.nodeName",
            value: |object| fields::text(object, "spec.nodeName"),
        },
    ])
}
