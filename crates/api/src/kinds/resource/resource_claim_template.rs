//! ResourceClaimTemplate.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "resource.k8s.io",
        "v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        "io.k8s.api.resource.v1.ResourceClaimTemplate",
    )
}
