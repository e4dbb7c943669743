//! How many of some pods may be taken away.

use rhumb_meta::labels::Selector;

use super::{Pod, PodKey};

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    pub key: PodKey,
    pub selector: Selector,
    pub disruptions_allowed: i32,
    /// Names of pods that the server has let go already. Sorted.
    pub disrupted_pods: Box<[Box<str>]>,
}

impl Budget {
    /// Whether it would have to be spent on this pod. A selector that is empty is about nobody here, as is one that is
    /// not there, and pods without labels are in no budget.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.key.namespace == pod.key.namespace
            && pod.labels.iter().next().is_some()
            && !self.selector.is_everything()
            && self.selector.matches(&pod.labels)
            && self.disrupted_pods.binary_search(&pod.key.name).is_err()
    }
}
