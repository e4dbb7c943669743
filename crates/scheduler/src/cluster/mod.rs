//! Everything a decision needs, kept up to date as pods, nodes and namespaces change.
//!
//! Nothing is computed per decision that can be computed per change. Each distinct picker is matched with a pod once,
//! when either of them appears or changes; each distinct term keeps its counts by domain. A change costs what it
//! touches: the terms that pick the pod, the pods of the node, the pods of the namespace.

mod counting;
mod groups;
mod ids;
mod namespaces;
mod nodes;
mod pickers;
mod pods;
mod slots;
mod tally;
mod terms;
#[cfg(test)]
mod tests;
mod topologies;

use std::sync::Arc;

pub use ids::{Domain, Id, IdMap, IdSet, NodeId, PickerId, PodId, TermId, TopologyId};
pub use nodes::{NodeSet, NodeSlot, Nodes, Room};
pub use pods::{PodSlot, PodTerms, Pods};
pub use tally::Tally;
pub use terms::TermSlot;
pub use topologies::Topology;

use crate::model::{Labels, Node, Pod};
use groups::Groups;
use namespaces::Namespaces;
use pickers::Pickers;
use terms::Terms;
use topologies::Topologies;

#[derive(Debug)]
pub struct Cluster {
    nodes: Nodes,
    pods: Pods,
    namespaces: Namespaces,
    groups: Groups,
    topologies: Topologies,
    pickers: Pickers,
    terms: Terms,
}

/// What became of a pod that the server told about.
#[derive(Debug, Clone)]
pub enum PodChange {
    Added(PodId),
    /// With what it was before.
    Changed {
        id: PodId,
        before: Arc<Pod>,
        place_before: Option<NodeId>,
        picked_by_before: Vec<PickerId>,
    },
    /// Nothing that scheduling looks at.
    Unchanged(PodId),
    /// It has come to its end, or was never of interest.
    Gone(Option<Departed>),
}

/// A pod that is no more.
#[derive(Debug, Clone)]
pub struct Departed {
    pub id: PodId,
    pub facts: Arc<Pod>,
    pub place: Option<NodeId>,
    pub picked_by: Vec<PickerId>,
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster {
            nodes: Nodes::default(),
            pods: Pods::default(),
            namespaces: Namespaces::default(),
            groups: Groups::default(),
            topologies: Topologies::new(),
            pickers: Pickers::default(),
            terms: Terms::default(),
        }
    }
}

/// What can be asked.
impl Cluster {
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub fn pods(&self) -> &Pods {
        &self.pods
    }

    #[inline]
    pub fn term(&self, id: TermId) -> &TermSlot {
        self.terms.get(id)
    }

    #[inline]
    pub fn topology(&self, id: TopologyId) -> &Topology {
        self.topologies.get(id)
    }

    /// The topology of a label, if any term or constraint is about it. Those of zones and of nodes by name are always
    /// there.
    pub fn topology_of(&self, key: &str) -> Option<TopologyId> {
        self.topologies.find(key)
    }

    /// The terms that count what a picker picks.
    pub fn terms_of(&self, picker: PickerId) -> &[TermId] {
        &self.pickers.get(picker).terms
    }

    /// None if nobody has told about the namespace, or it has none.
    pub fn namespace_labels(&self, name: &str) -> &Labels {
        self.namespaces.labels(name)
    }

    pub fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.contains(name)
    }

    /// The namespaces that somebody has told about.
    pub fn namespace_names(&self) -> impl Iterator<Item = &str> {
        self.namespaces.names()
    }

    /// Whether a picker picks a pod, as far as namespaces are known.
    pub fn picks(&self, picker: PickerId, pod: &Pod) -> bool {
        let labels = self.namespaces.labels(&pod.key.namespace);
        self.pickers.picks(picker, pod, labels)
    }
}

/// What changes.
impl Cluster {
    /// To be called before a decision: puts the nodes into the order in which they are looked at.
    pub fn prepare(&mut self) {
        self.nodes.bring_order();
    }

    /// Knows the domains of a label from now on, for those who ask for them and are no terms of pods.
    pub fn learn_topology(&mut self, key: &str) {
        self.topologies
            .acquire(&key.into(), self.nodes.described_with(key));
    }

    /// Takes note of a node. Says what was known of it before.
    pub fn set_node(&mut self, node: Node) -> (NodeId, Option<Arc<Node>>) {
        let id = self.nodes.ensure(&node.name);
        let before = self.nodes.get(id).facts().cloned();
        if before.as_deref() != Some(&node) {
            self.describe_node(id, Some(Arc::new(node)));
        }
        (id, before)
    }

    /// Forgets a node. Pods that are still on it stay there, and count for nothing.
    pub fn remove_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let id = self.nodes.find(name)?;
        let before = self.nodes.get(id).facts().cloned();
        self.describe_node(id, None);
        self.nodes.forget_unused(id);
        before
    }

    fn describe_node(&mut self, id: NodeId, facts: Option<Arc<Node>>) {
        let slot = self.nodes.get(id);
        let labels = |node: Option<&Arc<Node>>| node.map(|node| node.labels.clone());
        if labels(slot.facts()) == labels(facts.as_ref()) {
            return self.nodes.describe(id, facts);
        }
        let pods: Vec<PodId> = slot.pods().to_vec();
        for pod in &pods {
            self.count(*pod, id, -1);
        }
        self.topologies.place(id, facts.as_deref());
        self.nodes.describe(id, facts);
        for pod in &pods {
            self.count(*pod, id, 1);
        }
    }

    /// Takes note of a pod as the server has it. One that is on its way to a node stays so until the server knows.
    pub fn set_pod(&mut self, pod: Pod) -> PodChange {
        let known = self.pods.find(&pod.uid);
        if pod.is_terminal {
            return PodChange::Gone(known.and_then(|id| self.take_pod(id)));
        }
        let pod = Arc::new(pod);
        match known {
            None => PodChange::Added(self.add_pod(pod)),
            Some(id) => self.change_pod(id, pod),
        }
    }

    pub fn remove_pod(&mut self, uid: &str) -> Option<Departed> {
        let id = self.pods.find(uid)?;
        self.take_pod(id)
    }

    /// Puts a pod onto a node before the server knows.
    pub fn assume(&mut self, id: PodId, node: NodeId) {
        self.move_to(id, Some(node));
        self.pods.slots[id].is_assumed = true;
    }

    /// Takes a pod off the node that it did not get to. What the server has said stays.
    pub fn forget(&mut self, id: PodId) {
        if self.pods.get(id).is_some_and(PodSlot::is_assumed) {
            self.pods.slots[id].is_assumed = false;
            self.move_to(id, None);
        }
    }

    /// Takes a pod off its node, or puts it onto one, for as long as a question is asked. The caller puts it back.
    pub fn suppose(&mut self, id: PodId, node: Option<NodeId>) -> Option<NodeId> {
        let before = self.pods.get(id).and_then(PodSlot::place);
        self.place(id, node);
        before
    }

    /// Takes note of the labels of a namespace. Says which pickers now see it differently.
    pub fn set_namespace(&mut self, name: &str, labels: Labels) -> Vec<PickerId> {
        let before = self.namespaces.set(name, labels);
        self.namespace_changed(name, &before)
    }

    /// What is left in it is in a namespace without labels.
    pub fn remove_namespace(&mut self, name: &str) -> Vec<PickerId> {
        let before = self.namespaces.remove(name);
        self.namespace_changed(name, &before)
    }

    fn namespace_changed(&mut self, name: &str, before: &Labels) -> Vec<PickerId> {
        let after = self.namespaces.labels(name);
        let differing = self.pickers.telling_apart(name, before, after);
        if !differing.is_empty() {
            let pods: Vec<PodId> = self.pods.in_namespace(name).collect();
            for pod in pods {
                self.pick_again_by(&differing, pod);
            }
        }
        differing
    }
}

/// Pods that come, change and go.
impl Cluster {
    fn add_pod(&mut self, facts: Arc<Pod>) -> PodId {
        let labels = self.namespaces.labels(&facts.key.namespace);
        let picked_by = self.pickers.picking(&facts, labels);
        let id = self.pods.insert(PodSlot {
            facts: facts.clone(),
            place: None,
            is_assumed: false,
            picked_by,
            terms: PodTerms::default(),
        });
        self.pods.slots[id].terms = self.acquire_terms(&facts);
        let place = facts
            .node_name
            .as_deref()
            .map(|name| self.nodes.ensure(name));
        self.place(id, place);
        id
    }

    fn change_pod(&mut self, id: PodId, facts: Arc<Pod>) -> PodChange {
        let slot = &self.pods.slots[id];
        let (before, place_before) = (slot.facts.clone(), slot.place);
        let picked_by_before = slot.picked_by.clone();
        let is_bound = facts.node_name.is_some();
        let place = match &facts.node_name {
            Some(name) => Some(self.nodes.ensure(name)),
            None if slot.is_assumed => place_before,
            None => None,
        };
        if before.is_same_for(&facts, place.is_some()) && place == place_before {
            self.pods.slots[id].is_assumed &= !is_bound;
            self.pods.slots[id].facts = facts;
            return PodChange::Unchanged(id);
        }
        self.place(id, None);
        self.pods.replace(id, facts.clone());
        if before.labels != facts.labels || before.is_terminating != facts.is_terminating {
            self.pick_again(id);
        }
        let terms = self.acquire_terms(&facts);
        let terms_before = std::mem::replace(&mut self.pods.slots[id].terms, terms);
        self.release_terms(&terms_before);
        self.place(id, place);
        if let Some(node) = place_before {
            self.nodes.forget_unused(node);
        }
        self.pods.slots[id].is_assumed &= !is_bound;
        PodChange::Changed {
            id,
            before,
            place_before,
            picked_by_before,
        }
    }

    fn take_pod(&mut self, id: PodId) -> Option<Departed> {
        let place = self.pods.get(id)?.place;
        self.move_to(id, None);
        let slot = self.pods.remove(id)?;
        self.release_terms(&slot.terms);
        Some(Departed {
            id,
            facts: slot.facts,
            place,
            picked_by: slot.picked_by,
        })
    }

    /// Puts a pod onto a node, or off it. The node that it was on is forgotten if nothing is known of it but that.
    fn move_to(&mut self, id: PodId, place: Option<NodeId>) {
        let before = self.pods.slots[id].place;
        self.place(id, place);
        if let Some(node) = before {
            self.nodes.forget_unused(node);
        }
    }

    /// Puts a pod onto a node, or off it, and counts that. The node that it was on is kept: it may come back.
    fn place(&mut self, id: PodId, place: Option<NodeId>) {
        let slot = &mut self.pods.slots[id];
        let before = std::mem::replace(&mut slot.place, place);
        if before == place {
            return;
        }
        let facts = slot.facts.clone();
        if let Some(node) = before {
            self.count(id, node, -1);
            let slot = self.nodes.get_mut(node);
            let was_immense = slot.is_immense();
            slot.take(id, &facts);
            if was_immense {
                let left = slot.pods().to_vec();
                let left = left.iter().map(|pod| &*self.pods.slots[*pod].facts);
                slot.recount(left);
            }
        }
        if let Some(node) = place {
            self.nodes.get_mut(node).put(id, &facts);
            self.count(id, node, 1);
        }
    }
}
