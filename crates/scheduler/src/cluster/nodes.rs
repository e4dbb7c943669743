//! Nodes, the pods assigned to them and their summed requests (upstream: `framework.NodeInfo`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use rhumb_selection::{Id, SlotMap};

use super::ids::{NodeId, PodId};
use crate::model::{Node, Pod, Resources};

/// A node with the pods assigned to it and the sums of their requests.
#[derive(Debug)]
pub struct NodeInfo {
    pub name: Box<str>,
    /// `None` if pods are assigned to a node of this name and the node itself is not known.
    node: Option<Arc<Node>>,
    /// Copied from the node, since every scheduling cycle reads it.
    pub allocatable: NodeAllocatable,
    /// The version of the node table at which the node changed last.
    version: u64,
    pub requested: Resources,
    /// Sums of `Pod::non_zero_milli_cpu` and `Pod::non_zero_memory` (upstream: `NonZeroRequested`).
    pub non_zero_milli_cpu: i64,
    pub non_zero_memory: i64,
    pods: Vec<PodId>,
    /// The subset of `pods` that use host ports.
    pods_with_ports: Vec<PodId>,
}

/// The allocatable amounts of a node that every pod is checked against.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeAllocatable {
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    pub pods: i64,
}

impl NodeAllocatable {
    fn of(node: &Node) -> NodeAllocatable {
        NodeAllocatable {
            milli_cpu: node.allocatable.milli_cpu,
            memory: node.allocatable.memory,
            ephemeral_storage: node.allocatable.ephemeral_storage,
            pods: node.max_pods,
        }
    }
}

impl NodeInfo {
    pub fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    pub fn pods(&self) -> &[PodId] {
        &self.pods
    }

    pub fn pods_with_ports(&self) -> &[PodId] {
        &self.pods_with_ports
    }

    /// The version of the node table at which the node changed last.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether a sum has saturated, so that subtracting from it would give a wrong result.
    pub(super) fn is_saturated(&self) -> bool {
        self.requested.is_saturated()
            || self.non_zero_milli_cpu == i64::MAX
            || self.non_zero_memory == i64::MAX
    }

    /// Recomputes the sums from the pods on the node.
    pub(super) fn recount<'p>(&mut self, pods: impl Iterator<Item = &'p Pod>) {
        self.requested = Resources::default();
        (self.non_zero_milli_cpu, self.non_zero_memory) = (0, 0);
        for pod in pods {
            self.add_usage(pod);
        }
    }

    fn add_usage(&mut self, pod: &Pod) {
        self.requested.add(&pod.requests);
        self.non_zero_milli_cpu = self
            .non_zero_milli_cpu
            .saturating_add(pod.non_zero_milli_cpu);
        self.non_zero_memory = self.non_zero_memory.saturating_add(pod.non_zero_memory);
    }

    pub(super) fn add_pod(&mut self, id: PodId, pod: &Pod) {
        self.add_usage(pod);
        self.pods.push(id);
        if !pod.ports.is_empty() {
            self.pods_with_ports.push(id);
        }
    }

    pub(super) fn remove_pod(&mut self, id: PodId, pod: &Pod) {
        self.requested.sub(&pod.requests);
        self.non_zero_milli_cpu = self
            .non_zero_milli_cpu
            .saturating_sub(pod.non_zero_milli_cpu);
        self.non_zero_memory = self.non_zero_memory.saturating_sub(pod.non_zero_memory);
        for pods in [&mut self.pods, &mut self.pods_with_ports] {
            if let Some(index) = pods.iter().position(|known| *known == id) {
                pods.swap_remove(index);
            }
        }
    }
}

/// All nodes, by name and in the order in which the search visits them.
#[derive(Debug, Default)]
pub struct NodeTable {
    slots: SlotMap<NodeId, NodeInfo>,
    by_name: HashMap<Box<str>, NodeId>,
    /// How many nodes have each label.
    label_keys: HashMap<Box<str>, usize>,
    version: u64,
    /// The known nodes, alternating between zones (upstream: `nodeTree`).
    order: Vec<NodeId>,
    is_order_stale: bool,
}

impl NodeTable {
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The node with this id. Panics if the id is not in use.
    #[inline]
    pub fn get(&self, id: NodeId) -> &NodeInfo {
        &self.slots[id]
    }

    /// The name of a node, if the id is still in use.
    pub fn name(&self, id: NodeId) -> Option<&str> {
        self.slots.get(id).map(|slot| &*slot.name)
    }

    /// The node object; `None` if it was deleted or never listed.
    #[inline]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.slots.get(id)?.node.as_deref()
    }

    /// As `node`, as a shared reference that the caller can keep.
    pub fn node_arc(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.slots.get(id)?.node.as_ref()
    }

    /// The known nodes in visiting order. `ClusterState::refresh_node_order` must have been called.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeInfo)> {
        self.slots.iter()
    }

    /// One more than the largest node id.
    pub fn id_bound(&self) -> usize {
        self.slots.bound()
    }

    /// Incremented whenever a node object changes.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn known_nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.iter()
            .filter_map(|(id, slot)| Some((id, slot.node.as_deref()?)))
    }

    /// All known nodes if some node has the label, otherwise none.
    pub(super) fn known_nodes_with_label(
        &self,
        key: &str,
    ) -> impl Iterator<Item = (NodeId, &Node)> {
        let has_any = self.label_keys.contains_key(key);
        has_any.then(|| self.known_nodes()).into_iter().flatten()
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut NodeInfo {
        &mut self.slots[id]
    }

    /// The id of a node name; allocates one if the node is not known.
    pub(super) fn get_or_insert(&mut self, name: &str) -> NodeId {
        if let Some(known) = self.find(name) {
            return known;
        }
        let id = self.slots.insert(NodeInfo {
            name: name.into(),
            node: None,
            allocatable: NodeAllocatable::default(),
            version: self.version,
            requested: Resources::default(),
            non_zero_milli_cpu: 0,
            non_zero_memory: 0,
            pods: Vec::new(),
            pods_with_ports: Vec::new(),
        });
        self.by_name.insert(name.into(), id);
        id
    }

    /// Sets or removes the node object and updates the label index.
    pub(super) fn set_node(&mut self, id: NodeId, node: Option<Arc<Node>>) {
        self.version += 1;
        let slot = &mut self.slots[id];
        let zone = slot.node.as_deref().map(zone_of);
        self.is_order_stale |= zone != node.as_deref().map(zone_of);
        slot.allocatable = node.as_deref().map(NodeAllocatable::of).unwrap_or_default();
        slot.version = self.version;
        let old_node = std::mem::replace(&mut slot.node, node);
        let now = self.slots[id].node.as_deref();
        for (key, _) in now.iter().flat_map(|node| node.labels.iter()) {
            match self.label_keys.get_mut(key) {
                Some(nodes) => *nodes += 1,
                None => {
                    self.label_keys.insert(key.into(), 1);
                }
            }
        }
        for (key, _) in old_node.iter().flat_map(|node| node.labels.iter()) {
            if let Some(nodes) = self.label_keys.get_mut(key) {
                *nodes -= 1;
                if *nodes == 0 {
                    self.label_keys.remove(key);
                }
            }
        }
    }

    /// Frees the id of a node that is not known and has no pods.
    pub(super) fn remove_if_unused(&mut self, id: NodeId) {
        if let Some(slot) = self.slots.get(id)
            && slot.node.is_none()
            && slot.pods.is_empty()
        {
            self.by_name.remove(&slot.name);
            self.slots.remove(id);
        }
    }

    /// Interleaves the nodes of all zones, so that a search that stops early has still visited every zone.
    pub(super) fn refresh_order(&mut self) {
        if !std::mem::take(&mut self.is_order_stale) {
            return;
        }
        let mut zones: BTreeMap<_, VecDeque<NodeId>> = BTreeMap::new();
        for (id, node) in self.known_nodes() {
            zones.entry(zone_of(node)).or_default().push_back(id);
        }
        let mut queues: Vec<VecDeque<NodeId>> = zones.into_values().collect();
        let mut order = Vec::with_capacity(self.slots.len());
        while !queues.is_empty() {
            queues.retain_mut(|queue| {
                order.extend(queue.pop_front());
                !queue.is_empty()
            });
        }
        self.order = order;
    }
}

fn zone_of(node: &Node) -> (Option<&str>, Option<&str>) {
    (node.region(), node.zone())
}

/// A set of nodes, one bit per node id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeBitSet {
    bits: Vec<u64>,
}

impl NodeBitSet {
    #[inline]
    pub fn contains(&self, node: NodeId) -> bool {
        let word = self.bits.get(node.index() / 64);
        word.is_some_and(|word| word >> (node.index() % 64) & 1 == 1)
    }

    pub fn set(&mut self, node: NodeId, is_in: bool) {
        let (word, bit) = (node.index() / 64, 1 << (node.index() % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if is_in {
            self.bits[word] |= bit;
        } else {
            self.bits[word] &= !bit;
        }
    }
}
