//! The priorities of assigned pods, to skip preemption where no pod has a lower priority.

use std::collections::BTreeMap;

use crate::cluster::{IdMap, NodeId};

/// The number of assigned pods per priority, in total and per node. In clusters where all pods have the same priority,
/// this avoids the dry run on every node.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PodPriorityCounts {
    all: PriorityHistogram,
    by_node: IdMap<NodeId, PriorityHistogram>,
}

/// The number of pods per priority.
#[derive(Debug, Default, PartialEq, Eq)]
struct PriorityHistogram(BTreeMap<i32, usize>);

impl PodPriorityCounts {
    pub fn add_pod(&mut self, node: NodeId, priority: i32) {
        self.all.add(priority);
        self.by_node.entry(node).or_default().add(priority);
    }

    pub fn remove_pod(&mut self, node: NodeId, priority: i32) {
        self.all.remove(priority);
        if let Some(counts) = self.by_node.get_mut(&node) {
            counts.remove(priority);
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

impl PriorityHistogram {
    fn add(&mut self, priority: i32) {
        *self.0.entry(priority).or_default() += 1;
    }

    fn remove(&mut self, priority: i32) {
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
