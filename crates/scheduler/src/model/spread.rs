//! How evenly pods are to be spread.

use rhumb_meta::labels::Selector;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadConstraint {
    pub max_skew: i32,
    pub topology_key: Box<str>,
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// With the requirements that `matchLabelKeys` adds.
    pub selector: Selector,
    /// How many domains there should be; fewer count as if there were an empty one.
    pub min_domains: Option<i32>,
    pub node_affinity_policy: NodePolicy,
    pub node_taints_policy: NodePolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// Whether nodes that the pod cannot go to are left out of the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePolicy {
    Honor,
    Ignore,
}
