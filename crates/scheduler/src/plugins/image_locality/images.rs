//! Which images are on which nodes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::{Id, IdMap, NodeId, Nodes};
use crate::model::Node;

/// Kept up to date with the nodes: only what changed of them is looked at.
#[derive(Debug, Default)]
pub(super) struct Images {
    version: u64,
    /// The nodes as they were counted.
    counted: Vec<Option<Arc<Node>>>,
    nodes: usize,
    /// The nodes that have an image, and its size there.
    by_name: HashMap<Box<str>, IdMap<NodeId, i64>>,
}

impl Images {
    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    pub(super) fn nodes_with(&self, image: &str) -> Option<&IdMap<NodeId, i64>> {
        self.by_name.get(image)
    }

    pub(super) fn refresh(&mut self, nodes: &Nodes) {
        if self.version == nodes.version() {
            return;
        }
        self.version = nodes.version();
        if self.counted.len() < nodes.bound() {
            self.counted.resize(nodes.bound(), None);
        }
        self.nodes = 0;
        for index in 0..self.counted.len() {
            let id = NodeId::from_index(index);
            let now = nodes.described_as(id);
            self.nodes += usize::from(now.is_some());
            let is_same = match (now, &self.counted[index]) {
                (Some(now), Some(counted)) => Arc::ptr_eq(now, counted),
                (None, None) => true,
                _ => false,
            };
            if !is_same {
                self.replace(id, now.cloned());
            }
        }
    }

    fn replace(&mut self, id: NodeId, now: Option<Arc<Node>>) {
        if let Some(before) = self.counted[id.index()].take() {
            for name in before.images.iter().flat_map(|image| &image.names) {
                if let Some(nodes) = self.by_name.get_mut(name) {
                    nodes.remove(&id);
                    if nodes.is_empty() {
                        self.by_name.remove(name);
                    }
                }
            }
        }
        if let Some(now) = &now {
            for image in &now.images {
                for name in &image.names {
                    let nodes = self.by_name.entry(name.clone()).or_default();
                    nodes.insert(id, image.bytes);
                }
            }
        }
        self.counted[id.index()] = now;
    }
}
