//! The number of member pods of a selection on each node.

use rhumb_selection::{IdMap, InternedString};

/// Pods per node; the key `None` counts unscheduled pods.
#[derive(Debug, Default)]
pub(crate) struct PodCountsByNode {
    counts: IdMap<Option<InternedString>, usize>,
}

impl PodCountsByNode {
    /// Returns whether the node had no pods before.
    pub(crate) fn add(&mut self, node: &Option<InternedString>) -> bool {
        match self.counts.get_mut(node) {
            Some(count) => {
                *count += 1;
                false
            }
            None => {
                self.counts.insert(node.clone(), 1);
                node.is_some()
            }
        }
    }

    /// Returns whether the node has no pods any more.
    pub(crate) fn remove(&mut self, node: &Option<InternedString>) -> bool {
        let Some(count) = self.counts.get_mut(node) else {
            return false;
        };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        self.counts.remove(node);
        node.is_some()
    }

    pub(crate) fn unscheduled(&self) -> usize {
        self.counts.get(&None).copied().unwrap_or_default()
    }

    /// In unspecified order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, usize)> {
        let counts = self.counts.iter();
        counts.filter_map(|(node, count)| Some((node.as_ref()?.as_ref(), *count)))
    }
}
