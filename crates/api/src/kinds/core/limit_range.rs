//! LimitRange.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "LimitRange",
        "limitranges",
        "io.k8s.api.core.v1.LimitRange",
    )
    .short(&["limits"])
}
