//! The kinds of the group `networking.rhumb.dev`.

mod network_policy_node;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![network_policy_node::kind()]
}
