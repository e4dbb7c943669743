//! Role.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "rbac.authorization.k8s.io",
        "v1",
        "Role",
        "roles",
        "io.k8s.api.rbac.v1.Role",
    )
}
