//! Index of container images by the nodes that have them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::{Id, IdMap, NodeId, NodeTable};
use crate::model::Node;

/// Updated incrementally by [`ImageIndex::refresh`]: only nodes that changed are indexed again.
#[derive(Debug, Default)]
pub(super) struct ImageIndex {
    version: u64,
    /// The nodes as last indexed.
    indexed_nodes: Vec<Option<Arc<Node>>>,
    node_count: usize,
    /// Image name to the nodes that have it, with its size there.
    by_name: HashMap<Box<str>, IdMap<NodeId, i64>>,
}

impl ImageIndex {
    /// The number of nodes in the cluster.
    pub(super) fn node_count(&self) -> usize {
        self.node_count
    }

    pub(super) fn nodes_with(&self, image: &str) -> Option<&IdMap<NodeId, i64>> {
        self.by_name.get(image)
    }

    pub(super) fn refresh(&mut self, nodes: &NodeTable) {
        if self.version == nodes.version() {
            return;
        }
        self.version = nodes.version();
        if self.indexed_nodes.len() < nodes.id_bound() {
            self.indexed_nodes.resize(nodes.id_bound(), None);
        }
        self.node_count = 0;
        for index in 0..self.indexed_nodes.len() {
            let id = NodeId::from_index(index);
            let new = nodes.node_arc(id);
            self.node_count += usize::from(new.is_some());
            let is_same = match (new, &self.indexed_nodes[index]) {
                (Some(new), Some(counted)) => Arc::ptr_eq(new, counted),
                (None, None) => true,
                _ => false,
            };
            if !is_same {
                self.replace(id, new.cloned());
            }
        }
    }

    fn replace(&mut self, id: NodeId, new: Option<Arc<Node>>) {
        if let Some(old_node) = self.indexed_nodes[id.index()].take() {
            for name in old_node.images.iter().flat_map(|image| &image.names) {
                if let Some(nodes) = self.by_name.get_mut(name) {
                    nodes.remove(&id);
                    if nodes.is_empty() {
                        self.by_name.remove(name);
                    }
                }
            }
        }
        if let Some(new) = &new {
            for image in &new.images {
                for name in &image.names {
                    let nodes = self.by_name.entry(name.clone()).or_default();
                    nodes.insert(id, image.bytes);
                }
            }
        }
        self.indexed_nodes[id.index()] = new;
    }
}
