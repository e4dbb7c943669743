//! RoleBinding.

use super::rules::BindingRules;
use crate::{Kind, NameRule, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
        "io.k8s.api.rbac.v1.RoleBinding",
    )
    .names(NameRule::PathSegment)
    .updates_create()
    .rules(BindingRules {
        is_namespaced: true,
    })
}
