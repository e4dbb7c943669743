//! Secret.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "Secret",
        "secrets",
        "io.k8s.api.core.v1.Secret",
    )
}
