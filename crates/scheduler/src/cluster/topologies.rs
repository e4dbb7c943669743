//! Nodes by the values of their labels.

use std::collections::HashMap;
use std::sync::Arc;

use super::ids::{Domain, Id, IdMap, NodeId, TopologyId};
use crate::model::Node;

/// Nodes that have the same value of one label are one domain.
#[derive(Debug)]
pub struct Topology {
    /// `None` is the topology in which each node is a domain of its own.
    key: Option<Arc<str>>,
    values: HashMap<Box<str>, Domain>,
    /// The value of each domain.
    names: Vec<Box<str>>,
    /// How many nodes each domain has; those without nodes are used again.
    nodes: Vec<u32>,
    free: Vec<Domain>,
    /// Where each node is.
    of_node: Vec<Option<Domain>>,
    users: usize,
}

impl Topology {
    fn new(key: Option<Arc<str>>) -> Topology {
        Topology {
            key,
            values: HashMap::new(),
            names: Vec::new(),
            nodes: Vec::new(),
            free: Vec::new(),
            of_node: Vec::new(),
            users: 1,
        }
    }

    /// The domain that a node is in, if it has the label.
    #[inline]
    pub fn domain(&self, node: NodeId) -> Option<Domain> {
        self.of_node.get(node.index()).copied().flatten()
    }

    /// The label; `None` where each node is a domain of its own.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The value of the label in a domain.
    pub fn value(&self, domain: Domain) -> &str {
        let value = self.names.get(domain.index());
        value.map_or("", |value| value)
    }

    /// One more than the largest number of a domain.
    pub fn domains_bound(&self) -> usize {
        match self.key {
            Some(_) => self.nodes.len(),
            None => self.of_node.len(),
        }
    }

    fn place(&mut self, id: NodeId, node: Option<&Node>) {
        let before = self.domain(id);
        let now = match &self.key {
            None => node.map(|_| Domain::from_index(id.index())),
            Some(key) => {
                let value = node.and_then(|node| node.labels.get(key)).map(Box::from);
                value.map(|value| self.enter(value))
            }
        };
        // A label that no node has takes no room: whoever makes pods can name any number of them.
        if now.is_some() && self.of_node.len() <= id.index() {
            self.of_node.resize(id.index() + 1, None);
        }
        if let Some(place) = self.of_node.get_mut(id.index()) {
            *place = now;
        }
        if let Some(before) = before.filter(|_| self.key.is_some()) {
            self.leave(before);
        }
    }

    fn enter(&mut self, value: Box<str>) -> Domain {
        let domain = match self.values.get(&value) {
            Some(domain) => *domain,
            None => {
                let domain = self.free.pop().unwrap_or_else(|| {
                    self.nodes.push(0);
                    self.names.push(Box::default());
                    Domain::from_index(self.nodes.len() - 1)
                });
                self.names[domain.index()].clone_from(&value);
                self.values.insert(value, domain);
                domain
            }
        };
        self.nodes[domain.index()] += 1;
        domain
    }

    fn leave(&mut self, domain: Domain) {
        let nodes = &mut self.nodes[domain.index()];
        *nodes -= 1;
        if *nodes == 0 {
            self.values.remove(&self.names[domain.index()]);
            self.free.push(domain);
        }
    }
}

/// All topologies that terms and constraints are about.
#[derive(Debug)]
pub(super) struct Topologies {
    all: IdMap<TopologyId, Topology>,
    /// The number of the next. None is used again, since plugins remember what they found out under a number.
    next: usize,
    by_key: HashMap<Arc<str>, TopologyId>,
}

impl Topologies {
    /// Each node by itself. It is always there.
    pub(super) const EACH_NODE: TopologyId = TopologyId(0);

    /// With those that default constraints are about.
    pub(super) fn new() -> Topologies {
        let mut topologies = Topologies {
            all: IdMap::default(),
            next: 1,
            by_key: HashMap::new(),
        };
        topologies
            .all
            .insert(Topologies::EACH_NODE, Topology::new(None));
        for key in ["kubernetes.io/hostname", "topology.kubernetes.io/zone"] {
            topologies.acquire(&key.into(), std::iter::empty());
        }
        topologies
    }

    pub(super) fn get(&self, id: TopologyId) -> &Topology {
        &self.all[&id]
    }

    pub(super) fn find(&self, key: &str) -> Option<TopologyId> {
        self.by_key.get(key).copied()
    }

    /// The topology of a key, with all nodes in their domains. Each call is undone by one of [`Topologies::release`]:
    /// whoever makes pods may choose keys, so those that nobody uses must go.
    pub(super) fn acquire<'n>(
        &mut self,
        key: &Arc<str>,
        nodes: impl Iterator<Item = (NodeId, &'n Node)>,
    ) -> TopologyId {
        if let Some(known) = self.find(key) {
            if let Some(topology) = self.all.get_mut(&known) {
                topology.users += 1;
            }
            return known;
        }
        let mut topology = Topology::new(Some(key.clone()));
        for (id, node) in nodes {
            topology.place(id, Some(node));
        }
        let id = TopologyId::from_index(self.next);
        self.next += 1;
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
        topology.users -= 1;
        if topology.users == 0 {
            self.by_key.remove(&key);
            self.all.remove(&id);
        }
    }

    /// Puts a node where its labels say, or nowhere when it is gone.
    pub(super) fn place(&mut self, id: NodeId, node: Option<&Node>) {
        for topology in self.all.values_mut() {
            topology.place(id, node);
        }
    }
}

#[cfg(test)]
impl Topologies {
    /// Each key with its users and how many nodes have each value, in words.
    pub(super) fn entries(&self) -> Vec<String> {
        let keyed = self.all.values();
        let keyed = keyed.filter_map(|topology| Some((topology.key.as_deref()?, topology)));
        let mut entries: Vec<_> = keyed
            .map(|(key, topology)| {
                let values = topology.values.iter();
                let mut values: Vec<(&str, u32)> = values
                    .map(|(value, domain)| (&**value, topology.nodes[domain.index()]))
                    .collect();
                values.sort_unstable();
                format!("{key}: {} users, {values:?}", topology.users)
            })
            .collect();
        entries.sort_unstable();
        entries
    }
}
