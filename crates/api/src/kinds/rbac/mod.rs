//! The kinds of this group.

mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;
mod rules;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        cluster_role::kind(),
        cluster_role_binding::kind(),
        role::kind(),
        role_binding::kind(),
    ]
}
