//! ClusterRole.

use super::rules::RoleRules;
use crate::{Kind, NameRule, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        "io.k8s.api.rbac.v1.ClusterRole",
    )
    .names(NameRule::PathSegment)
    .updates_create()
    .rules(RoleRules {
        is_namespaced: false,
    })
}
