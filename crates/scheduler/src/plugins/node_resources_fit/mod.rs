//! Filter and score plugin `NodeResourcesFit`: resource requests against allocatable, scored by utilization.

mod filter;
mod queueing_hints;
mod scored_resources;
mod scoring_strategy;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::{ClusterEvent, NodeScorer, Plugin, PreFilterRejection, PreFilterResult};
use crate::cluster::{ClusterState, NodeId, PodInfo};
use filter::ResourceFitFilter;
pub use scored_resources::ResourceSpec;
pub(super) use scored_resources::{ResourceUsageCalculator, UsageBasis};
use scoring_strategy::ResourceFitScorer;
pub use scoring_strategy::{ScoringStrategy, ShapePoint};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeResourcesFit {
    /// Extended resources that are not checked, for example because an extender manages them.
    pub ignored_resources: BTreeSet<Box<str>>,
    /// The same for all resources whose name starts with one of these groups and a `/`.
    pub ignored_resource_groups: BTreeSet<Box<str>>,
    pub strategy: ScoringStrategy,
    /// The resources that are scored.
    pub resources: Vec<ResourceSpec>,
}

impl Default for NodeResourcesFit {
    fn default() -> Self {
        NodeResourcesFit {
            ignored_resources: BTreeSet::new(),
            ignored_resource_groups: BTreeSet::new(),
            strategy: ScoringStrategy::LeastAllocated,
            resources: ResourceSpec::cpu_and_memory(),
        }
    }
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        Ok(PreFilterResult {
            filter: Some(Box::new(ResourceFitFilter::new(
                self,
                &pod.pod,
                cluster.nodes(),
            ))),
            candidate_nodes: None,
        })
    }

    fn pre_score<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScorer + 'c>> {
        Some(Box::new(ResourceFitScorer::new(
            self,
            &pod.pod,
            cluster.nodes(),
        )))
    }

    fn queueing_hint(
        &self,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        queueing_hints::queueing_hint(self, event, &pod.pod, cluster)
    }

    fn is_event_relevant(&self, event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
        queueing_hints::is_event_relevant(event, cluster)
    }
}

/// Upstream's scalar resources: names with a domain, huge pages, and attachable volumes.
fn is_scalar(name: &str) -> bool {
    name.contains('/') || name.starts_with("hugepages-") || name.starts_with("attachable-volumes-")
}

/// Extended resources: scalar resources outside the `kubernetes.io` domain.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
