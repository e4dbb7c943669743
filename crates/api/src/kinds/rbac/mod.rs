//! Built-in kinds of API group `rbac.authorization.k8s.io`, one module each.

mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;
mod strategy;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        cluster_role::kind(),
        cluster_role_binding::kind(),
        role::kind(),
        role_binding::kind(),
    ]
}
