//! `NodeResourcesFit`: whether a node has room for what a pod asks for, and how full it would be.

mod filter;
mod hints;
mod strategy;
#[cfg(test)]
mod tests;
mod weighed;

use std::collections::BTreeSet;

use super::{Event, Filtering, NodeScore, Plugin, Unschedulable};
use crate::cluster::{Cluster, NodeId, PodSlot};
use filter::FitFilter;
use strategy::FitScore;
pub use strategy::{ShapePoint, Strategy};
pub use weighed::ResourceWeight;
pub(super) use weighed::{Basis, Measure};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeResourcesFit {
    /// Extended resources that are not looked at: someone else does.
    pub ignored_resources: BTreeSet<Box<str>>,
    /// The same for all whose name begins with one of these and a `/`.
    pub ignored_resource_groups: BTreeSet<Box<str>>,
    pub strategy: Strategy,
    /// What is scored.
    pub resources: Vec<ResourceWeight>,
}

impl Default for NodeResourcesFit {
    fn default() -> Self {
        NodeResourcesFit {
            ignored_resources: BTreeSet::new(),
            ignored_resource_groups: BTreeSet::new(),
            strategy: Strategy::LeastAllocated,
            resources: ResourceWeight::usual(),
        }
    }
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        Ok(Filtering {
            filter: Some(Box::new(FitFilter::new(self, &pod.facts, cluster.nodes()))),
            only: None,
        })
    }

    fn score<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        Some(Box::new(FitScore::new(self, &pod.facts, cluster.nodes())))
    }

    fn may_help(&self, event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
        hints::may_help(self, event, &pod.facts, cluster)
    }

    fn may_help_some(&self, event: &Event<'_>, cluster: &Cluster) -> bool {
        hints::may_help_some(event, cluster)
    }
}

/// Resources that count for scheduling beside processor, memory and local storage: names with a domain, huge pages, and
/// volumes that can be attached.
fn is_scalar(name: &str) -> bool {
    name.contains('/') || name.starts_with("hugepages-") || name.starts_with("attachable-volumes-")
}

/// Those of them that are not Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
