//! Role.

use super::rules::RoleRules;
use crate::{Kind, NameRule, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "rbac.authorization.k8s.io",
        "v1",
        "Role",
        "roles",
        "io.k8s.api.rbac.v1.Role",
    )
    .names(NameRule::PathSegment)
    .updates_create()
    .rules(RoleRules {
        is_namespaced: true,
    })
}
