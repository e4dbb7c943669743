//! The state of one policy from which the network policy controller derives its status conditions.

use std::collections::BTreeMap;

use crate::lint::LintWarning;

/// What the engine knows about one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySummary {
    pub uid: String,
    pub generation: i64,
    /// The version that the policy requires: `spec.minVersion`, or derived from the features that it uses.
    pub min_version: String,
    /// The number of selected pods on each node, without unscheduled pods.
    pub pods_per_node: BTreeMap<String, usize>,
    pub unscheduled_pods: usize,
    /// Whether some rule matches at least one pod, an address range, or everything; `None` if the policy has no
    /// effective rules.
    pub has_matching_peers: Option<bool>,
    pub lint_warnings: Vec<LintWarning>,
}
