//! Topology spread constraints.

use rhumb_meta::labels::Selector;

/// One of `spec.topologySpreadConstraints`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologySpreadConstraint {
    pub max_skew: i32,
    pub topology_key: Box<str>,
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Includes the requirements of `matchLabelKeys`.
    pub selector: Selector,
    /// With fewer eligible domains than this, the global minimum is 0.
    pub min_domains: Option<i32>,
    pub node_affinity_policy: NodeInclusionPolicy,
    pub node_taints_policy: NodeInclusionPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// Whether nodes that the pod's node affinity or untolerated taints exclude are left out of the skew calculation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeInclusionPolicy {
    Honor,
    Ignore,
}
