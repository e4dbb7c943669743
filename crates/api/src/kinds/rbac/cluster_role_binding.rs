//! Declares `ClusterRoleBinding` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/rbac/validation`.

use super::strategy::RoleBindingStrategy;
use crate::{Kind, NameRule, ResourceScope};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        "io.k8s.api.rbac.v1.ClusterRoleBinding",
    )
    .names(NameRule::PathSegment)
    .creates_on_update()
    .strategy(RoleBindingStrategy {
        is_namespaced: false,
    })
}
