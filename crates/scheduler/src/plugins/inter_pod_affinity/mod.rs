//! Filter and score plugin `InterPodAffinity`: pod affinity and anti-affinity by topology domain.

mod filter;
mod queueing_hints;
mod rejection_detail;
mod score;
#[cfg(test)]
mod tests;

use super::{ClusterEvent, NodeScorer, Plugin, PreFilterRejection, PreFilterResult};
use crate::cluster::{ClusterState, NodeId, PodInfo};
use filter::InterPodAffinityFilter;
use score::InterPodAffinityScorer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterPodAffinity {
    /// Score that an existing pod adds whose required affinity matches the incoming pod.
    pub hard_pod_affinity_weight: i64,
    /// Whether preferred terms of existing pods are left out of the score.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        InterPodAffinity {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
        }
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        let filter = InterPodAffinityFilter::new(pod, cluster);
        Ok(PreFilterResult {
            filter: filter.map(|filter| Box::new(filter) as _),
            candidate_nodes: None,
        })
    }

    fn pre_score<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScorer + 'c>> {
        let score = InterPodAffinityScorer::new(self, pod, cluster)?;
        Some(Box::new(score))
    }

    fn queueing_hint(
        &self,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        queueing_hints::queueing_hint(event, pod, cluster)
    }

    fn is_event_relevant(&self, event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
        queueing_hints::is_event_relevant(event, cluster)
    }
}
