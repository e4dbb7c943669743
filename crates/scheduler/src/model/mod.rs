//! The fields of pods, nodes and other objects that scheduling uses, decoded once per change (see `decode`).

mod decode;
mod disruption_budget;
mod labels;
mod node;
mod node_selector;
mod pod;
mod pod_affinity;
mod resources;
mod spread_owner;
mod toleration;
mod topology_spread;

pub use disruption_budget::DisruptionBudget;
pub use labels::Labels;
pub use node::{Node, NodeImage, Taint};
pub use node_selector::{
    NodeNameOperator, NodeNameRequirement, NodeSelector, NodeSelectorTerm, PreferredNodeTerms,
};
pub use pod::{
    ControllerRef, HostPort, NamespacedName, Pod, PreemptionPolicy, UnscheduledCondition,
};
pub use pod_affinity::{
    PodAffinity, PodAffinityTerm, PodMatcher, TermNamespaces, WeightedPodAffinityTerm,
};
pub use resources::Resources;
pub use spread_owner::{SpreadOwner, SpreadOwnerKey, SpreadOwnerKind};
pub use toleration::{TaintEffect, Toleration, TolerationOperator};
pub use topology_spread::{NodeInclusionPolicy, TopologySpreadConstraint, WhenUnsatisfiable};
