//! Declares `Role` and its strategy: preparation, validation and warnings, as in upstream's `pkg/apis/rbac/validation`.

use super::strategy::RoleStrategy;
use crate::{Kind, NameRule, ResourceScope};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "rbac.authorization.k8s.io",
        "v1",
        "Role",
        "roles",
        "io.k8s.api.rbac.v1.Role",
    )
    .names(NameRule::PathSegment)
    .creates_on_update()
    .strategy(RoleStrategy {
        is_namespaced: true,
    })
}
