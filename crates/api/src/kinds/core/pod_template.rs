//! PodTemplate.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "PodTemplate",
        "podtemplates",
        "io.k8s.api.core.v1.PodTemplate",
    )
}
