//! Nodes, and what is used of them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::ids::{Id, NodeId, PodId};
use super::slots::Slots;
use crate::model::{Node, Pod, Resources};

/// A node and what the pods on it use.
#[derive(Debug)]
pub struct NodeSlot {
    pub name: Box<str>,
    /// `None` while pods are on it that nobody has described.
    facts: Option<Arc<Node>>,
    /// What the facts say there is, close at hand: every decision asks for it.
    pub room: Room,
    /// Grows whenever the facts change.
    version: u64,
    pub requested: Resources,
    pub assumed_milli_cpu: i64,
    pub assumed_memory: i64,
    pods: Vec<PodId>,
    /// Those of them that take ports of the node.
    pods_with_ports: Vec<PodId>,
}

/// How much a node has of what every pod needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    pub pods: i64,
}

impl Room {
    fn of(node: &Node) -> Room {
        Room {
            milli_cpu: node.allocatable.milli_cpu,
            memory: node.allocatable.memory,
            ephemeral_storage: node.allocatable.ephemeral_storage,
            pods: node.pods_max,
        }
    }
}

impl NodeSlot {
    pub fn facts(&self) -> Option<&Arc<Node>> {
        self.facts.as_ref()
    }

    pub fn pods(&self) -> &[PodId] {
        &self.pods
    }

    pub fn pods_with_ports(&self) -> &[PodId] {
        &self.pods_with_ports
    }

    /// The version of all nodes at which these facts came.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether so much is used that the sums may be less than what it is.
    pub(super) fn is_immense(&self) -> bool {
        self.requested.is_immense()
            || self.assumed_milli_cpu == i64::MAX
            || self.assumed_memory == i64::MAX
    }

    /// Adds up anew what is used.
    pub(super) fn recount<'p>(&mut self, pods: impl Iterator<Item = &'p Pod>) {
        self.requested = Resources::default();
        (self.assumed_milli_cpu, self.assumed_memory) = (0, 0);
        for pod in pods {
            self.use_for(pod);
        }
    }

    fn use_for(&mut self, pod: &Pod) {
        self.requested.add(&pod.requests);
        self.assumed_milli_cpu = self.assumed_milli_cpu.saturating_add(pod.assumed_milli_cpu);
        self.assumed_memory = self.assumed_memory.saturating_add(pod.assumed_memory);
    }

    pub(super) fn put(&mut self, id: PodId, pod: &Pod) {
        self.use_for(pod);
        self.pods.push(id);
        if !pod.ports.is_empty() {
            self.pods_with_ports.push(id);
        }
    }

    pub(super) fn take(&mut self, id: PodId, pod: &Pod) {
        self.requested.sub(&pod.requests);
        self.assumed_milli_cpu = self.assumed_milli_cpu.saturating_sub(pod.assumed_milli_cpu);
        self.assumed_memory = self.assumed_memory.saturating_sub(pod.assumed_memory);
        for pods in [&mut self.pods, &mut self.pods_with_ports] {
            if let Some(place) = pods.iter().position(|known| *known == id) {
                pods.swap_remove(place);
            }
        }
    }
}

/// All nodes, by name and in the order in which they are looked at.
#[derive(Debug, Default)]
pub struct Nodes {
    slots: Slots<NodeId, NodeSlot>,
    by_name: HashMap<Box<str>, NodeId>,
    /// How many nodes have each label.
    label_keys: HashMap<Box<str>, usize>,
    version: u64,
    /// Those with facts, one of each zone in turn.
    order: Vec<NodeId>,
    order_is_old: bool,
}

impl Nodes {
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// A node that is known, or that pods are on.
    #[inline]
    pub fn get(&self, id: NodeId) -> &NodeSlot {
        &self.slots[id]
    }

    /// What a node is called, if it is still there.
    pub fn name(&self, id: NodeId) -> Option<&str> {
        self.slots.get(id).map(|slot| &*slot.name)
    }

    /// What is known of a node; nothing if it is gone, or was never described.
    #[inline]
    pub fn facts(&self, id: NodeId) -> Option<&Node> {
        self.slots.get(id)?.facts.as_deref()
    }

    /// The same, to be kept.
    pub fn described_as(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.slots.get(id)?.facts.as_ref()
    }

    /// Those that pods can go to, in the order in which they are looked at.
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeSlot)> {
        self.slots.iter()
    }

    /// One more than the largest number of a node.
    pub fn bound(&self) -> usize {
        self.slots.bound()
    }

    /// Grows whenever the facts of a node change.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn described(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.iter()
            .filter_map(|(id, slot)| Some((id, slot.facts.as_deref()?)))
    }

    /// Those that can have a label: none if no node has it.
    pub(super) fn described_with(&self, key: &str) -> impl Iterator<Item = (NodeId, &Node)> {
        let has_any = self.label_keys.contains_key(key);
        has_any.then(|| self.described()).into_iter().flatten()
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut NodeSlot {
        &mut self.slots[id]
    }

    /// The node of a name, which need not have been described.
    pub(super) fn ensure(&mut self, name: &str) -> NodeId {
        if let Some(known) = self.find(name) {
            return known;
        }
        let id = self.slots.insert(NodeSlot {
            name: name.into(),
            facts: None,
            room: Room::default(),
            version: self.version,
            requested: Resources::default(),
            assumed_milli_cpu: 0,
            assumed_memory: 0,
            pods: Vec::new(),
            pods_with_ports: Vec::new(),
        });
        self.by_name.insert(name.into(), id);
        id
    }

    pub(super) fn describe(&mut self, id: NodeId, facts: Option<Arc<Node>>) {
        self.version += 1;
        let slot = &mut self.slots[id];
        let zone = slot.facts.as_deref().map(zone_of);
        self.order_is_old |= zone != facts.as_deref().map(zone_of);
        slot.room = facts.as_deref().map(Room::of).unwrap_or_default();
        slot.version = self.version;
        let before = std::mem::replace(&mut slot.facts, facts);
        let now = self.slots[id].facts.as_deref();
        for (key, _) in now.iter().flat_map(|node| node.labels.iter()) {
            match self.label_keys.get_mut(key) {
                Some(nodes) => *nodes += 1,
                None => {
                    self.label_keys.insert(key.into(), 1);
                }
            }
        }
        for (key, _) in before.iter().flat_map(|node| node.labels.iter()) {
            if let Some(nodes) = self.label_keys.get_mut(key) {
                *nodes -= 1;
                if *nodes == 0 {
                    self.label_keys.remove(key);
                }
            }
        }
    }

    /// Forgets a node that was not described and has no pods.
    pub(super) fn forget_unused(&mut self, id: NodeId) {
        if let Some(slot) = self.slots.get(id)
            && slot.facts.is_none()
            && slot.pods.is_empty()
        {
            self.by_name.remove(&slot.name);
            self.slots.remove(id);
        }
    }

    /// Takes a node from each zone in turn, so that whoever stops early has seen all of them.
    pub(super) fn bring_order(&mut self) {
        if !std::mem::take(&mut self.order_is_old) {
            return;
        }
        let mut zones: BTreeMap<_, VecDeque<NodeId>> = BTreeMap::new();
        for (id, node) in self.described() {
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

/// A set of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSet {
    bits: Vec<u64>,
}

impl NodeSet {
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
