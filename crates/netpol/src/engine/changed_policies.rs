//! Tracks the policies whose summary may have changed.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use rhumb_selection::IdSet;

use super::ids::{PolicyId, SelectionId};
use super::policy_cluster_state::PolicyClusterState;
use crate::NamespacedName;

/// Records changed selections and resolves them to policies only when asked: many pods may change in between.
#[derive(Debug, Default)]
pub(super) struct ChangedPolicies {
    policies: IdSet<PolicyId>,
    /// Selections with changed members; those that were or became empty; those with a changed set of nodes.
    members_changed: IdSet<SelectionId>,
    emptiness_changed: IdSet<SelectionId>,
    nodes_changed: IdSet<SelectionId>,
    removed: Vec<Arc<NamespacedName>>,
}

/// What a membership change altered besides the number of members.
#[derive(Debug, Clone, Copy)]
pub(super) struct MembershipTransition {
    /// The selection was or became empty.
    pub(super) emptiness_changed: bool,
    /// A node got its first or lost its last member.
    pub(super) nodes_changed: bool,
}

impl ChangedPolicies {
    pub(super) fn mark_policy(&mut self, policy: PolicyId) {
        self.policies.insert(policy);
    }

    pub(super) fn mark_removed(&mut self, policy: PolicyId, name: Arc<NamespacedName>) {
        self.policies.remove(&policy);
        self.removed.push(name);
    }

    pub(super) fn mark_members(
        &mut self,
        selection: SelectionId,
        transition: MembershipTransition,
    ) {
        self.members_changed.insert(selection);
        if transition.emptiness_changed {
            self.emptiness_changed.insert(selection);
        }
        if transition.nodes_changed {
            self.nodes_changed.insert(selection);
        }
    }

    /// A selection was dropped. The policies that referred to it have been recorded already.
    pub(super) fn forget_selection(&mut self, selection: SelectionId) {
        self.members_changed.remove(&selection);
        self.emptiness_changed.remove(&selection);
        self.nodes_changed.remove(&selection);
    }

    pub(super) fn take(&mut self, cluster: &PolicyClusterState) -> BTreeSet<NamespacedName> {
        self.nodes_changed = mem::take(&mut self.members_changed);
        self.take_ignoring_counts(cluster)
    }

    pub(super) fn take_ignoring_counts(
        &mut self,
        cluster: &PolicyClusterState,
    ) -> BTreeSet<NamespacedName> {
        let changed = mem::take(self);
        let mut policies = changed.policies;
        for selection in changed
            .emptiness_changed
            .iter()
            .chain(&changed.nodes_changed)
        {
            policies.extend(cluster.selections[*selection].targeted_by.iter());
        }
        for selection in &changed.emptiness_changed {
            policies.extend(cluster.selections[*selection].peer_of.iter());
        }
        let names = policies.iter().map(|id| &cluster.policies[*id].name);
        let names = names.chain(&changed.removed);
        names.map(|name| (**name).clone()).collect()
    }
}
