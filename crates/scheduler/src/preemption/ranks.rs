//! How important the pods are that have a place.

use std::collections::BTreeMap;

use crate::cluster::{IdMap, NodeId};

/// How many pods of each priority there are, on all nodes together and on each. Where all are equals, as in most
/// clusters, nobody has to be looked at to know that nobody is to leave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ranks {
    all: Counts,
    by_node: IdMap<NodeId, Counts>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts(BTreeMap<i32, usize>);

impl Ranks {
    pub fn put(&mut self, node: NodeId, priority: i32) {
        self.all.add(priority);
        self.by_node.entry(node).or_default().add(priority);
    }

    pub fn take(&mut self, node: NodeId, priority: i32) {
        self.all.sub(priority);
        if let Some(counts) = self.by_node.get_mut(&node) {
            counts.sub(priority);
            if counts.0.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    pub(super) fn has_lower(&self, priority: i32) -> bool {
        self.all.has_lower(priority)
    }

    pub(super) fn has_lower_on(&self, node: NodeId, priority: i32) -> bool {
        let counts = self.by_node.get(&node);
        counts.is_some_and(|counts| counts.has_lower(priority))
    }
}

impl Counts {
    fn add(&mut self, priority: i32) {
        *self.0.entry(priority).or_default() += 1;
    }

    fn sub(&mut self, priority: i32) {
        if let Some(count) = self.0.get_mut(&priority) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(&priority);
            }
        }
    }

    fn has_lower(&self, priority: i32) -> bool {
        let lowest = self.0.first_key_value();
        lowest.is_some_and(|(lowest, _)| *lowest < priority)
    }
}
