//! [`ClusterState`]: the scheduler's in-memory state of all pods, nodes and namespaces (upstream: the scheduler cache
//! and its snapshot), including assumed pods.
//!
//! Everything that can be computed per change is not computed per scheduling cycle. Each distinct pod matcher (label
//! selector plus namespaces) is matched with a pod once, when either appears or changes; each distinct term (matcher
//! plus topology key) maintains its counts per topology domain. The cost of a change is proportional to what it
//! affects: the terms that match the pod, the pods of the node, the pods of the namespace.

mod count_updates;
mod domain_counts;
mod ids;
mod namespaces;
mod nodes;
mod pod_matchers;
mod pods;
mod spread_owners;
mod term_counts;
#[cfg(test)]
mod tests;
mod topologies;

use std::sync::Arc;

pub use domain_counts::DomainCounts;
pub use ids::{NodeId, PodId, PodMatcherId, TermId, TopologyDomainId, TopologyId};
pub use nodes::{NodeAllocatable, NodeBitSet, NodeInfo, NodeTable};
pub use rhumb_selection::{Id, IdMap};

pub use pods::{PodInfo, PodTable, PodTermIds};
pub use term_counts::TermCounts;
pub use topologies::TopologyDomains;

use crate::model::{Labels, Node, Pod};
use namespaces::NamespaceLabels;
use pod_matchers::PodMatcherIndex;
use rhumb_selection::Interner;
use spread_owners::SpreadOwners;
use term_counts::TermTable;
use topologies::TopologyTable;

/// The state that filter and score plugins read.
#[derive(Debug)]
pub struct ClusterState {
    /// The labels of all pods, and what the indexes of selectors require.
    interner: Interner,
    nodes: NodeTable,
    pods: PodTable,
    namespaces: NamespaceLabels,
    spread_owners: SpreadOwners,
    topologies: TopologyTable,
    matchers: PodMatcherIndex,
    terms: TermTable,
}

/// The result of [`ClusterState::set_pod`].
#[derive(Debug, Clone)]
pub enum PodUpsertResult {
    Added(PodId),
    Updated {
        id: PodId,
        old_pod: Arc<Pod>,
        previous_node: Option<NodeId>,
        old_matched_by: Vec<PodMatcherId>,
    },
    /// Nothing that is relevant for scheduling changed.
    Unchanged(PodId),
    /// The pod is terminal; `None` if it was not known.
    Removed(Option<DepartedPod>),
}

/// The last state of a pod that was removed from the cluster state, or from its node.
#[derive(Debug, Clone)]
pub struct DepartedPod {
    pub id: PodId,
    pub pod: Arc<Pod>,
    pub node_id: Option<NodeId>,
    pub matched_by: Vec<PodMatcherId>,
}

impl Default for ClusterState {
    fn default() -> Self {
        ClusterState {
            interner: Interner::default(),
            nodes: NodeTable::default(),
            pods: PodTable::default(),
            namespaces: NamespaceLabels::default(),
            spread_owners: SpreadOwners::default(),
            topologies: TopologyTable::new(),
            matchers: PodMatcherIndex::default(),
            terms: TermTable::default(),
        }
    }
}

/// Queries.
impl ClusterState {
    pub fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    pub fn pods(&self) -> &PodTable {
        &self.pods
    }

    #[inline]
    pub fn term_counts(&self, id: TermId) -> &TermCounts {
        self.terms.get(id)
    }

    #[inline]
    pub fn topology(&self, id: TopologyId) -> &TopologyDomains {
        self.topologies.get(id)
    }

    /// The topology of a node label, if a term or constraint uses it. Those of `kubernetes.io/hostname` and
    /// `topology.kubernetes.io/zone` always exist.
    pub fn find_topology(&self, key: &str) -> Option<TopologyId> {
        self.topologies.find(key)
    }

    /// The terms that use a matcher.
    pub fn terms_using(&self, matcher: PodMatcherId) -> &[TermId] {
        &self.matchers.get(matcher).terms
    }

    /// Empty if the namespace is not known.
    pub fn namespace_labels(&self, name: &str) -> &Labels {
        self.namespaces.labels(name)
    }

    pub fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.contains(name)
    }

    /// The names of all known namespaces.
    pub fn namespace_names(&self) -> impl Iterator<Item = &str> {
        self.namespaces.names()
    }

    /// Whether a matcher matches a pod. A namespace that is not known has no labels.
    pub fn matches(&self, matcher: PodMatcherId, pod: &Pod) -> bool {
        let labels = self.namespaces.labels(&pod.key.namespace);
        self.matchers.matches(matcher, pod, labels)
    }
}

/// Changes of nodes, pods and namespaces.
impl ClusterState {
    /// Recomputes the visiting order of nodes if it is stale. Must be called before each scheduling cycle.
    pub fn refresh_node_order(&mut self) {
        self.nodes.refresh_order();
    }

    /// Maintains the topology of a label from now on, for plugins whose configuration names it.
    pub fn register_topology(&mut self, key: &str) {
        self.topologies
            .acquire(&key.into(), self.nodes.known_nodes_with_label(key));
    }

    /// Adds or updates a node. Returns the previous node.
    pub fn set_node(&mut self, node: Node) -> (NodeId, Option<Arc<Node>>) {
        let id = self.nodes.get_or_insert(&node.name);
        let old = self.nodes.get(id).node().cloned();
        if old.as_deref() != Some(&node) {
            self.replace_node(id, Some(Arc::new(node)));
        }
        (id, old)
    }

    /// Removes a node. Pods that are still assigned to it stay so, but are in no topology domain.
    pub fn remove_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let id = self.nodes.find(name)?;
        let old = self.nodes.get(id).node().cloned();
        self.replace_node(id, None);
        self.nodes.remove_if_unused(id);
        old
    }

    fn replace_node(&mut self, id: NodeId, node: Option<Arc<Node>>) {
        let slot = self.nodes.get(id);
        let labels = |node: Option<&Arc<Node>>| node.map(|node| node.labels.clone());
        if labels(slot.node()) == labels(node.as_ref()) {
            return self.nodes.set_node(id, node);
        }
        let pods: Vec<PodId> = slot.pods().to_vec();
        for pod in &pods {
            self.adjust_counts(*pod, id, -1);
        }
        self.topologies.set_node(id, node.as_deref());
        self.nodes.set_node(id, node);
        for pod in &pods {
            self.adjust_counts(*pod, id, 1);
        }
    }

    /// Adds or updates a pod as received from the API server. An assumed pod stays assumed until the server reports
    /// its node.
    pub fn set_pod(&mut self, pod: Pod) -> PodUpsertResult {
        let known = self.pods.find(&pod.uid);
        if pod.is_terminal {
            return PodUpsertResult::Removed(known.and_then(|id| self.delete_pod(id)));
        }
        let pod = Arc::new(pod);
        match known {
            None => PodUpsertResult::Added(self.add_pod(pod)),
            Some(id) => self.change_pod(id, pod),
        }
    }

    pub fn remove_pod(&mut self, uid: &str) -> Option<DepartedPod> {
        let id = self.pods.find(uid)?;
        self.delete_pod(id)
    }

    /// Assigns a pod to a node before the binding is written (upstream: `AssumePod`).
    pub fn assume(&mut self, id: PodId, node: NodeId) {
        self.reassign(id, Some(node));
        self.pods.slots[id].is_assumed = true;
    }

    /// Reverts [`ClusterState::assume`] after the binding failed (upstream: `ForgetPod`).
    pub fn forget(&mut self, id: PodId) {
        if self.pods.get(id).is_some_and(PodInfo::is_assumed) {
            self.pods.slots[id].is_assumed = false;
            self.reassign(id, None);
        }
    }

    /// Moves a pod to another node, or off its node, for a what-if evaluation. Returns its node, with which the caller
    /// must call this again to restore the state.
    pub fn move_temporarily(&mut self, id: PodId, node: Option<NodeId>) -> Option<NodeId> {
        let old = self.pods.get(id).and_then(PodInfo::node_id);
        self.assign(id, node);
        old
    }

    /// Adds or updates a namespace. Returns the matchers for which the namespace was included or excluded by this.
    pub fn set_namespace(&mut self, name: &str, labels: Labels) -> Vec<PodMatcherId> {
        let old = self.namespaces.set(name, labels);
        self.rematch_namespace(name, &old)
    }

    /// Removes a namespace. Pods that remain in it are treated as in a namespace without labels.
    pub fn remove_namespace(&mut self, name: &str) -> Vec<PodMatcherId> {
        let old = self.namespaces.remove(name);
        self.rematch_namespace(name, &old)
    }

    fn rematch_namespace(&mut self, name: &str, old: &Labels) -> Vec<PodMatcherId> {
        let after = self.namespaces.labels(name);
        let differing = self.matchers.affected_by_relabel(name, old, after);
        if !differing.is_empty() {
            let pods: Vec<PodId> = self.pods.in_namespace(name).collect();
            for pod in pods {
                self.rematch_pod_with(&differing, pod);
            }
        }
        differing
    }
}

/// Adding, updating and removing pods.
impl ClusterState {
    fn add_pod(&mut self, pod: Arc<Pod>) -> PodId {
        let labels = self.interner.intern_labels(pod.labels.iter());
        let namespace_labels = self.namespaces.labels(&pod.key.namespace);
        let matchers = &self.matchers;
        let matched_by = matchers.matching(&pod, &labels, namespace_labels, &self.interner);
        let info = PodInfo {
            pod: pod.clone(),
            node_id: None,
            is_assumed: false,
            matched_by,
            terms: PodTermIds::default(),
        };
        let id = self.pods.insert(info, &labels);
        self.pods.slots[id].terms = self.acquire_terms(&pod);
        let node_id = pod
            .node_name
            .as_deref()
            .map(|name| self.nodes.get_or_insert(name));
        self.assign(id, node_id);
        id
    }

    fn change_pod(&mut self, id: PodId, pod: Arc<Pod>) -> PodUpsertResult {
        let slot = &self.pods.slots[id];
        let (old, previous_node) = (slot.pod.clone(), slot.node_id);
        let old_matched_by = slot.matched_by.clone();
        let is_bound = pod.node_name.is_some();
        let node_id = match &pod.node_name {
            Some(name) => Some(self.nodes.get_or_insert(name)),
            None if slot.is_assumed => previous_node,
            None => None,
        };
        if old.is_equivalent_update(&pod, node_id.is_some()) && node_id == previous_node {
            self.pods.slots[id].is_assumed &= !is_bound;
            self.pods.slots[id].pod = pod;
            return PodUpsertResult::Unchanged(id);
        }
        self.assign(id, None);
        self.pods.replace(id, pod.clone(), &mut self.interner);
        if old.labels != pod.labels || old.is_terminating != pod.is_terminating {
            self.rematch_pod(id);
        }
        let terms = self.acquire_terms(&pod);
        let terms_before = std::mem::replace(&mut self.pods.slots[id].terms, terms);
        self.release_terms(&terms_before);
        self.assign(id, node_id);
        if let Some(node) = previous_node {
            self.nodes.remove_if_unused(node);
        }
        self.pods.slots[id].is_assumed &= !is_bound;
        PodUpsertResult::Updated {
            id,
            old_pod: old,
            previous_node,
            old_matched_by,
        }
    }

    fn delete_pod(&mut self, id: PodId) -> Option<DepartedPod> {
        let node_id = self.pods.get(id)?.node_id;
        self.reassign(id, None);
        let slot = self.pods.remove(id, &mut self.interner)?;
        self.release_terms(&slot.terms);
        Some(DepartedPod {
            id,
            pod: slot.pod,
            node_id,
            matched_by: slot.matched_by,
        })
    }

    /// Assigns a pod to a node, or to none, and frees the id of its previous node if that is no longer used.
    fn reassign(&mut self, id: PodId, node_id: Option<NodeId>) {
        let old = self.pods.slots[id].node_id;
        self.assign(id, node_id);
        if let Some(node) = old {
            self.nodes.remove_if_unused(node);
        }
    }

    /// Assigns a pod to a node, or to none, and updates all counts. Keeps the id of the previous node, since the pod
    /// may be moved back.
    fn assign(&mut self, id: PodId, node_id: Option<NodeId>) {
        let slot = &mut self.pods.slots[id];
        let old = std::mem::replace(&mut slot.node_id, node_id);
        if old == node_id {
            return;
        }
        let pod = slot.pod.clone();
        if let Some(node) = old {
            self.adjust_counts(id, node, -1);
            let slot = self.nodes.get_mut(node);
            let was_immense = slot.is_saturated();
            slot.remove_pod(id, &pod);
            if was_immense {
                let left = slot.pods().to_vec();
                let left = left.iter().map(|pod| &*self.pods.slots[*pod].pod);
                slot.recount(left);
            }
        }
        if let Some(node) = node_id {
            self.nodes.get_mut(node).add_pod(id, &pod);
            self.adjust_counts(id, node, 1);
        }
    }
}
