//! The fields of a PodDisruptionBudget that preemption uses.

use rhumb_meta::labels::Selector;

use super::{NamespacedName, Pod};

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionBudget {
    pub key: NamespacedName,
    pub selector: Selector,
    pub disruptions_allowed: i32,
    /// Names of pods whose eviction is already granted (`status.disruptedPods`). Sorted.
    pub disrupted_pods: Box<[Box<str>]>,
}

impl DisruptionBudget {
    /// Whether evicting the pod consumes a disruption of this budget. As upstream: an empty or missing selector matches
    /// no pod, and pods without labels are in no budget.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.key.namespace == pod.key.namespace
            && pod.labels.iter().next().is_some()
            && !self.selector.is_everything()
            && self.selector.matches(&pod.labels)
            && self.disrupted_pods.binary_search(&pod.key.name).is_err()
    }
}
