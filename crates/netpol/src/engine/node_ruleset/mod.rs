//! The ruleset of one node: records what may be stale, and computes the delta when asked.

mod allow_rules;
mod ip_sets;
mod policy_groups;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use rhumb_selection::InternedString;

use self::ip_sets::IpSetRegistry;
use self::policy_groups::PolicyGroups;
use super::ids::{PodId, PolicyId, SelectionId};
use super::policy_cluster_state::PolicyClusterState;
use crate::ruleset::{
    NodeRuleset, PolicyChain, PolicyChainId, PolicyGroupChange, PolicyGroupId, RulesetDelta,
};
use crate::{Direction, NamespacedName};

#[derive(Debug, Default)]
pub(super) struct NodeRulesetTracker {
    /// `None` with `EngineScope::Cluster`: no ruleset is computed.
    pub(super) name: Option<InternedString>,
    /// The pods of the node, without those in the host network.
    pub(super) pods: BTreeSet<PodId>,
    /// See [`PolicyEngine::set_node_pod_ranges`](super::PolicyEngine::set_node_pod_ranges).
    pub(super) pod_ranges: Vec<(IpAddr, IpAddr)>,
    /// Selections that lost their last user since the last delta; they may have users again.
    pub(super) unused_selections: Vec<SelectionId>,
    pub(super) stale: StaleRulesetParts,
    /// The ruleset as of the last delta.
    pub(super) ruleset: NodeRuleset,
    pub(super) applied: BTreeMap<Arc<NamespacedName>, AppliedPolicyVersion>,
    groups: PolicyGroups,
    sets: IpSetRegistry,
}

/// The parts of the ruleset that may have changed since the last delta.
#[derive(Debug, Default)]
pub(super) struct StaleRulesetParts {
    /// Addresses of current or former local pods, or in the node's pod ranges.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Addresses that may have changed in the IP sets of a selection.
    elements: BTreeSet<(SelectionId, IpAddr)>,
    pub(super) policies: BTreeSet<Arc<NamespacedName>>,
    /// Policies whose local target became empty or non-empty. Empty between engine calls.
    pub(super) activity_changed: BTreeSet<PolicyId>,
}

/// Uid and generation of a policy that selects pods of the node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AppliedPolicyVersion {
    pub(super) uid: Box<str>,
    pub(super) generation: i64,
}

impl NodeRulesetTracker {
    pub(super) fn new(name: Option<InternedString>) -> NodeRulesetTracker {
        NodeRulesetTracker {
            name,
            ..NodeRulesetTracker::default()
        }
    }

    pub(super) fn is_in_range(&self, address: IpAddr) -> bool {
        let mut ranges = self.pod_ranges.iter();
        ranges.any(|(first, last)| *first <= address && address <= *last)
    }

    pub(super) fn mark_elements_stale(&mut self, selection: SelectionId, addresses: &[IpAddr]) {
        if self.sets.has_sets_of(selection) {
            let elements = addresses.iter().map(|address| (selection, *address));
            self.stale.elements.extend(elements);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let stale = &self.stale;
        let is_fresh = stale.addresses.is_empty() && stale.elements.is_empty();
        let is_settled = stale.policies.is_empty() && stale.activity_changed.is_empty();
        let is_initial = self.ruleset == NodeRuleset::default() && self.applied.is_empty();
        let has_rules = !self.groups.is_empty() || !self.sets.is_empty();
        is_fresh
            && is_settled
            && is_initial
            && !has_rules
            && self.pods.is_empty()
            && self.unused_selections.is_empty()
    }

    /// Updates the ruleset and returns the changes.
    pub(super) fn take_delta(&mut self, cluster: &PolicyClusterState) -> RulesetDelta {
        let mut changes = RulesetDelta::default();
        self.update_dispatch(cluster, &mut changes);
        changes.removed_groups = self.groups.remove_unused();
        for (chain, sets) in self.groups.remove_unused_chains() {
            self.sets.release(sets);
            changes.removed_chains.push(chain);
        }
        self.rebuild_chains(cluster, &mut changes);
        self.sets.update(
            cluster,
            mem::take(&mut self.stale.elements),
            &self.ruleset,
            &mut changes,
        );
        self.ruleset.apply(&changes);
        self.update_applied_policies(cluster);
        changes
    }

    /// Updates the policy group of each stale address.
    fn update_dispatch(&mut self, cluster: &PolicyClusterState, changes: &mut RulesetDelta) {
        for address in mem::take(&mut self.stale.addresses) {
            let anyone = cluster.address_owners.owner_of(address);
            let owner = anyone.filter(|pod| cluster.pods[*pod].attributes.node == self.name);
            let is_known = owner
                .or(anyone.filter(|_| self.is_in_range(address)))
                .is_some();
            match (self.ruleset.known_addresses.contains(&address), is_known) {
                (false, true) => _ = changes.known_addresses_added.insert(address),
                (true, false) => _ = changes.known_addresses_removed.insert(address),
                _ => {}
            }
            for direction in Direction::BOTH {
                let before = self.ruleset.dispatch.get(&(direction, address)).copied();
                let after = owner.and_then(|pod| self.group_of(cluster, pod, direction, changes));
                if before != after {
                    let redirection = PolicyGroupChange { before, after };
                    changes.dispatch.insert((direction, address), redirection);
                    self.groups.count_dispatch_change(redirection);
                }
            }
        }
    }

    /// The group of the policies that isolate the pod; `None` if there are none.
    fn group_of(
        &mut self,
        cluster: &PolicyClusterState,
        pod: PodId,
        direction: Direction,
        changes: &mut RulesetDelta,
    ) -> Option<PolicyGroupId> {
        let policies = cluster.isolating_policies(pod, direction);
        if policies.is_empty() {
            return None;
        }
        let names = policies.iter().map(|id| &cluster.policies[*id].name);
        let (group, new) = self.groups.find_or_insert(names, direction);
        if let Some(chains) = new {
            changes.groups.insert(group, chains);
        }
        Some(group)
    }

    /// Rebuilds new chains and the chains of stale policies.
    fn rebuild_chains(&mut self, cluster: &PolicyClusterState, changes: &mut RulesetDelta) {
        let mut names = mem::take(&mut self.groups.policies_with_new_chains);
        names.extend(self.stale.policies.iter().cloned());
        for name in names {
            for chain in self.groups.chains_of(&name) {
                self.rebuild_chain(cluster, chain, &name, changes);
            }
        }
    }

    fn rebuild_chain(
        &mut self,
        cluster: &PolicyClusterState,
        id: PolicyChainId,
        name: &NamespacedName,
        changes: &mut RulesetDelta,
    ) {
        let Some(policy) = cluster.policies.find(name) else {
            return;
        };
        let compiled = &cluster.policies[policy].compiled;
        let (rules, sets) = allow_rules::build_allow_rules(compiled, id.direction, &mut self.sets);
        let sets_before = self.groups.set_sets(id, sets);
        self.sets.release(sets_before);
        let written = self.ruleset.chains.get(&id);
        if written.is_none_or(|chain| chain.rules != rules) {
            let policy = name.clone();
            changes.chains.insert(id, PolicyChain { policy, rules });
        }
    }

    fn update_applied_policies(&mut self, cluster: &PolicyClusterState) {
        for name in mem::take(&mut self.stale.policies) {
            let compiled = cluster
                .policies
                .find(&name)
                .map(|id| &cluster.policies[id].compiled);
            let has_targets = |target| !cluster.selections[target].members.is_empty();
            match compiled.filter(|compiled| compiled.is_supported && has_targets(compiled.target))
            {
                Some(compiled) => {
                    let applied = AppliedPolicyVersion {
                        uid: compiled.uid.clone(),
                        generation: compiled.generation,
                    };
                    self.applied.insert(name, applied);
                }
                None => _ = self.applied.remove(&name),
            }
        }
    }
}
