//! Topologies: the nodes grouped into domains by the value of a node label.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_selection::{Id, IdMap};

use super::ids::{NodeId, TopologyDomainId, TopologyId};
use crate::model::Node;

/// The domains of one topology key. Nodes with the same value of the label are in the same domain.
#[derive(Debug)]
pub struct TopologyDomains {
    /// `None` is the topology in which each node is a domain of its own.
    key: Option<Arc<str>>,
    values: HashMap<Box<str>, TopologyDomainId>,
    /// The label value of each domain.
    domain_values: Vec<Box<str>>,
    /// The number of nodes in each domain; the ids of empty domains are reused.
    domain_node_counts: Vec<u32>,
    free: Vec<TopologyDomainId>,
    /// The domain of each node.
    domain_of_node: Vec<Option<TopologyDomainId>>,
    references: usize,
}

impl TopologyDomains {
    fn new(key: Option<Arc<str>>) -> TopologyDomains {
        TopologyDomains {
            key,
            values: HashMap::new(),
            domain_values: Vec::new(),
            domain_node_counts: Vec::new(),
            free: Vec::new(),
            domain_of_node: Vec::new(),
            references: 1,
        }
    }

    /// The domain of a node; `None` if the node does not have the label.
    #[inline]
    pub fn domain(&self, node: NodeId) -> Option<TopologyDomainId> {
        self.domain_of_node.get(node.index()).copied().flatten()
    }

    /// The topology key; `None` if each node is a domain of its own.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The label value of a domain.
    pub fn value(&self, domain: TopologyDomainId) -> &str {
        let value = self.domain_values.get(domain.index());
        value.map_or("", |value| value)
    }

    /// One more than the largest domain id.
    pub fn domains_bound(&self) -> usize {
        match self.key {
            Some(_) => self.domain_node_counts.len(),
            None => self.domain_of_node.len(),
        }
    }

    fn set_node(&mut self, id: NodeId, node: Option<&Node>) {
        let old_domain = self.domain(id);
        let now = match &self.key {
            None => node.map(|_| TopologyDomainId::from_index(id.index())),
            Some(key) => {
                let value = node.and_then(|node| node.labels.get(key)).map(Box::from);
                value.map(|value| self.add_to_domain(value))
            }
        };
        // A label that no node has uses no memory: pods may name any number of topology keys.
        if now.is_some() && self.domain_of_node.len() <= id.index() {
            self.domain_of_node.resize(id.index() + 1, None);
        }
        if let Some(domain) = self.domain_of_node.get_mut(id.index()) {
            *domain = now;
        }
        if let Some(old_domain) = old_domain.filter(|_| self.key.is_some()) {
            self.remove_from_domain(old_domain);
        }
    }

    fn add_to_domain(&mut self, value: Box<str>) -> TopologyDomainId {
        let domain = match self.values.get(&value) {
            Some(domain) => *domain,
            None => {
                let domain = self.free.pop().unwrap_or_else(|| {
                    self.domain_node_counts.push(0);
                    self.domain_values.push(Box::default());
                    TopologyDomainId::from_index(self.domain_node_counts.len() - 1)
                });
                self.domain_values[domain.index()].clone_from(&value);
                self.values.insert(value, domain);
                domain
            }
        };
        self.domain_node_counts[domain.index()] += 1;
        domain
    }

    fn remove_from_domain(&mut self, domain: TopologyDomainId) {
        let nodes = &mut self.domain_node_counts[domain.index()];
        *nodes -= 1;
        if *nodes == 0 {
            self.values.remove(&self.domain_values[domain.index()]);
            self.free.push(domain);
        }
    }
}

/// The topologies of all keys that terms and constraints use, reference counted.
#[derive(Debug)]
pub(super) struct TopologyTable {
    all: IdMap<TopologyId, TopologyDomains>,
    /// The next id. Ids are never reused, since plugins cache results by topology id.
    next_id: usize,
    by_key: HashMap<Arc<str>, TopologyId>,
}

impl TopologyTable {
    /// The topology in which each node is its own domain. Always exists.
    pub(super) const EACH_NODE: TopologyId = TopologyId::FIRST;

    /// Creates the topologies of the default spread constraints.
    pub(super) fn new() -> TopologyTable {
        let mut topologies = TopologyTable {
            all: IdMap::default(),
            next_id: 1,
            by_key: HashMap::new(),
        };
        topologies
            .all
            .insert(TopologyTable::EACH_NODE, TopologyDomains::new(None));
        for key in ["kubernetes.io/hostname", "topology.kubernetes.io/zone"] {
            topologies.acquire(&key.into(), std::iter::empty());
        }
        topologies
    }

    pub(super) fn get(&self, id: TopologyId) -> &TopologyDomains {
        &self.all[&id]
    }

    pub(super) fn find(&self, key: &str) -> Option<TopologyId> {
        self.by_key.get(key).copied()
    }

    /// The topology of a key, with all nodes in their domains. Must be paired with [`TopologyTable::release`]: users
    /// choose the keys, so unused ones must be freed.
    pub(super) fn acquire<'n>(
        &mut self,
        key: &Arc<str>,
        nodes: impl Iterator<Item = (NodeId, &'n Node)>,
    ) -> TopologyId {
        if let Some(known) = self.find(key) {
            if let Some(topology) = self.all.get_mut(&known) {
                topology.references += 1;
            }
            return known;
        }
        let mut topology = TopologyDomains::new(Some(key.clone()));
        for (id, node) in nodes {
            topology.set_node(id, Some(node));
        }
        let id = TopologyId::from_index(self.next_id);
        self.next_id += 1;
        self.all.insert(id, topology);
        self.by_key.insert(key.clone(), id);
        id
    }

    pub(super) fn release(&mut self, id: TopologyId) {
        let Some(topology) = self.all.get_mut(&id) else {
            return;
        };
        let Some(key) = topology.key.clone() else {
            return;
        };
        topology.references -= 1;
        if topology.references == 0 {
            self.by_key.remove(&key);
            self.all.remove(&id);
        }
    }

    /// Updates the domain of a node in all topologies; `None` if the node was removed.
    pub(super) fn set_node(&mut self, id: NodeId, node: Option<&Node>) {
        for topology in self.all.values_mut() {
            topology.set_node(id, node);
        }
    }
}

#[cfg(test)]
impl TopologyTable {
    /// Each key with its reference count and the number of nodes per value, as text.
    pub(super) fn entries(&self) -> Vec<String> {
        let keyed = self.all.values();
        let keyed = keyed.filter_map(|topology| Some((topology.key.as_deref()?, topology)));
        let mut entries: Vec<_> = keyed
            .map(|(key, topology)| {
                let values = topology.values.iter();
                let mut values: Vec<(&str, u32)> = values
                    .map(|(value, domain)| (&**value, topology.domain_node_counts[domain.index()]))
                    .collect();
                values.sort_unstable();
                format!("{key}: {} users, {values:?}", topology.references)
            })
            .collect();
        entries.sort_unstable();
        entries
    }
}
