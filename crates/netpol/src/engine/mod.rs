//! Incremental NetworkPolicy evaluation: tracks pods, namespaces and policies. Entry point: [`PolicyEngine`].
//!
//! Objects are reduced to small records in a [`policy_cluster_state::PolicyClusterState`]. The targets and the peers of
//! policies are *pod selections*; equal selections are shared between policies, and each keeps its member pods
//! ([`membership`]). A changed object therefore only affects the selections that it joins or leaves, and what is
//! derived from them: summaries, or the ruleset of a node ([`node_ruleset`]). The result does not depend on the order
//! of events, except for the numbers of sets, chains and groups.

mod address_owners;
mod changed_policies;
mod compile_policy;
mod evaluate_connection;
mod ids;
mod membership;
mod name_index;
mod namespace_table;
mod node_ruleset;
mod object_updates;
mod pod_counts_by_node;
mod pod_selections;
mod pod_table;
mod policy_cluster_state;
mod policy_table;

use std::collections::BTreeSet;
use std::net::IpAddr;

use rhumb_selection::Interner;

use self::changed_policies::ChangedPolicies;
use self::node_ruleset::NodeRulesetTracker;
use self::pod_counts_by_node::PodCountsByNode;
use self::policy_cluster_state::PolicyClusterState;
use crate::policy_summary::PolicySummary;
use crate::ruleset::{NodeRuleset, RulesetDelta};
use crate::verdict::{ConnectionQuery, ConnectionVerdict};
use crate::{Namespace, NamespacedName, NetworkPolicy, Pod, policy_versions};

pub(crate) use self::compile_policy::isolates;

/// What an engine computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineScope {
    /// Verdicts and policy summaries for all pods.
    Cluster,
    /// The ruleset of one node. Policies that select no pod of the node cost almost nothing. Verdicts and summaries
    /// only consider pods of the node as targets of policies.
    Node(String),
}

/// What the network plugin can enforce. Policies that require another version are ignored completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginCapabilities {
    pub versions: BTreeSet<String>,
    /// Whether SCTP ports can be matched; if not, rules for SCTP allow nothing.
    pub sctp: bool,
}

impl PluginCapabilities {
    /// All versions and features that exist.
    pub fn all() -> PluginCapabilities {
        PluginCapabilities {
            versions: policy_versions::ALL_VERSIONS.map(str::to_owned).into(),
            sctp: true,
        }
    }
}

/// Evaluates policies; see the [module documentation](self).
#[derive(Debug)]
pub struct PolicyEngine {
    capabilities: PluginCapabilities,
    interner: Interner,
    cluster: PolicyClusterState,
    node_ruleset: NodeRulesetTracker,
    changed_policies: ChangedPolicies,
}

impl PolicyEngine {
    pub fn new(scope: EngineScope, capabilities: PluginCapabilities) -> PolicyEngine {
        let mut interner = Interner::default();
        let name = match scope {
            EngineScope::Cluster => None,
            EngineScope::Node(name) => Some(interner.intern(&name)),
        };
        PolicyEngine {
            capabilities,
            interner,
            cluster: PolicyClusterState::default(),
            node_ruleset: NodeRulesetTracker::new(name),
            changed_policies: ChangedPolicies::default(),
        }
    }

    pub fn set_namespace(&mut self, namespace: &Namespace) {
        self.apply_namespace(namespace);
    }

    pub fn remove_namespace(&mut self, name: &str) {
        self.delete_namespace(name);
    }

    /// Adds or updates a pod. Returns whether this may have changed which policies select it, or its addresses.
    pub fn set_pod(&mut self, pod: &Pod) -> bool {
        self.apply_pod(pod)
    }

    pub fn remove_pod(&mut self, name: &NamespacedName) {
        self.delete_pod(name);
    }

    pub fn set_policy(&mut self, policy: &NetworkPolicy) {
        self.apply_policy(policy);
    }

    pub fn remove_policy(&mut self, name: &NamespacedName) {
        self.delete_policy(name);
    }

    /// Sets the pod address ranges of this node (inclusive, one family each). The ruleset lists the addresses in them
    /// that belong to any pod, even to one of another node.
    pub fn set_node_pod_ranges(&mut self, ranges: &[(IpAddr, IpAddr)]) {
        self.apply_node_pod_ranges(ranges);
    }

    /// The names of all pods, to be compared with a new list. Finished pods are not included.
    pub fn pods(&self) -> impl Iterator<Item = &NamespacedName> {
        self.cluster.pods.names()
    }

    pub fn policies(&self) -> impl Iterator<Item = &NamespacedName> {
        self.cluster.policies.names()
    }

    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.cluster.namespaces.existing_names()
    }

    pub fn has_pod(&self, name: &NamespacedName) -> bool {
        self.cluster.pods.find(name).is_some()
    }

    /// The version that a policy requires.
    pub fn min_version(&self, policy: &NamespacedName) -> Option<&str> {
        let id = self.cluster.policies.find(policy)?;
        Some(&self.cluster.policies[id].compiled.min_version)
    }

    /// Whether the policy selects the pod.
    pub fn selects(&self, policy: &NamespacedName, pod: &NamespacedName) -> bool {
        let policy = self.cluster.policies.find(policy);
        let pod = self.cluster.pods.find(pod);
        policy.zip(pod).is_some_and(|(policy, pod)| {
            let target = self.cluster.policies[policy].compiled.target;
            self.cluster.selections[target].members.contains(pod)
        })
    }

    /// The policies that select the pod, in unspecified order.
    pub fn policies_selecting(
        &self,
        pod: &NamespacedName,
    ) -> impl Iterator<Item = &NamespacedName> {
        let pod = self.cluster.pods.find(pod);
        let selections = pod.into_iter().flat_map(|pod| {
            let selections = &self.cluster.pods[pod].selections;
            selections.iter()
        });
        let policies = selections.flat_map(|id| self.cluster.selections[*id].targeted_by.iter());
        policies.map(|policy| &*self.cluster.policies[policy].name)
    }

    /// The pod that owns an address. If several claim it: the newest that is not terminating. Pods in the host network
    /// own no address.
    pub fn pod_with_address(&self, address: IpAddr) -> Option<&NamespacedName> {
        let pod = self
            .cluster
            .address_owners
            .owner_of(address.to_canonical())?;
        Some(&self.cluster.pods[pod].name)
    }

    /// Evaluates a connection for each pair of addresses of the same family. Addresses of a pod that another pod owns
    /// by now are not considered. `None` if there is no such pair: a pod does not exist, has no address, or the
    /// endpoints have no family in common.
    pub fn evaluate(&self, query: &ConnectionQuery) -> Option<ConnectionVerdict> {
        self.cluster.evaluate(query)
    }

    /// The summary of a policy. The cost does not depend on the number of selected pods: pods per node are counted
    /// incrementally.
    pub fn summary(&self, policy: &NamespacedName) -> Option<PolicySummary> {
        let id = self.cluster.policies.find(policy)?;
        let compiled = &self.cluster.policies[id].compiled;
        let selections = &self.cluster.selections;
        let pod_counts = selections[compiled.target].pod_counts.as_ref();
        let nodes = pod_counts.into_iter().flat_map(PodCountsByNode::nodes);
        Some(PolicySummary {
            uid: compiled.uid.to_string(),
            generation: compiled.generation,
            min_version: compiled.min_version.to_string(),
            pods_per_node: nodes
                .map(|(node, count)| (node.to_owned(), count))
                .collect(),
            unscheduled_pods: pod_counts.map_or(0, PodCountsByNode::unscheduled),
            has_matching_peers: compiled
                .has_matching_peers(|peer| !selections[peer].members.is_empty()),
            lint_warnings: compiled.lint_warnings.to_vec(),
        })
    }

    /// Policies whose summary may have changed since the last call, including deleted ones. Always empty with
    /// [`EngineScope::Node`].
    pub fn take_changed_policies(&mut self) -> BTreeSet<NamespacedName> {
        self.changed_policies.take(&self.cluster)
    }

    /// The same, without policies for which only the number of pods on a node (or unscheduled) changed. So a new pod on
    /// a node that already has selected pods costs nothing, however many policies select it.
    pub fn take_changed_policies_ignoring_counts(&mut self) -> BTreeSet<NamespacedName> {
        self.changed_policies.take_ignoring_counts(&self.cluster)
    }

    /// The changes of the node's ruleset since the last call.
    pub fn take_ruleset_delta(&mut self) -> RulesetDelta {
        let changes = self.node_ruleset.take_delta(&self.cluster);
        self.drop_unused_selections();
        changes
    }

    /// The node's ruleset as of the last [`PolicyEngine::take_ruleset_delta`].
    pub fn ruleset(&self) -> &NodeRuleset {
        &self.node_ruleset.ruleset
    }

    /// The policies that select pods of this node, with uid and generation, as of the last
    /// [`PolicyEngine::take_ruleset_delta`].
    pub fn applied_policies(&self) -> impl Iterator<Item = (&NamespacedName, &str, i64)> {
        let applied = self.node_ruleset.applied.iter();
        applied.map(|(name, applied)| (&**name, &*applied.uid, applied.generation))
    }
}

#[cfg(test)]
mod tests;
