//! Declares `RoleBinding` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/rbac/validation`.

use super::strategy::RoleBindingStrategy;
use crate::{Kind, NameRule, ResourceScope};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
        "io.k8s.api.rbac.v1.RoleBinding",
    )
    .names(NameRule::PathSegment)
    .creates_on_update()
    .strategy(RoleBindingStrategy {
        is_namespaced: true,
    })
}
