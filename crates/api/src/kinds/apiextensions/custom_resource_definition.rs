//! CustomResourceDefinition.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    )
    .short(&["crd", "crds"])
    .category("api-extensions")
    .storage("apiextensions.k8s.io/customresourcedefinitions")
    .generation(Generation::Of(&["spec"]))
    .status()
}
