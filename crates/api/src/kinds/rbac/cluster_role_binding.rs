//! ClusterRoleBinding.

use super::rules::BindingRules;
use crate::{Kind, NameRule, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        "io.k8s.api.rbac.v1.ClusterRoleBinding",
    )
    .names(NameRule::PathSegment)
    .updates_create()
    .rules(BindingRules {
        is_namespaced: false,
    })
}
