//! `InterPodAffinity`: nodes by the pods that are there, or in the same zone.

mod detail;
mod filter;
mod hints;
mod score;
#[cfg(test)]
mod tests;

use super::{Event, Filtering, NodeScore, Plugin, Unschedulable};
use crate::cluster::{Cluster, NodeId, PodSlot};
use filter::AffinityFilter;
use score::AffinityScore;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterPodAffinity {
    /// What a pod that is there adds by its required affinity to the pod that comes.
    pub hard_pod_affinity_weight: i64,
    /// Whether only what the coming pod prefers counts, and not what those prefer that are there.
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

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        let filter = AffinityFilter::new(pod, cluster);
        Ok(Filtering {
            filter: filter.map(|filter| Box::new(filter) as _),
            only: None,
        })
    }

    fn score<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        let score = AffinityScore::new(self, pod, cluster)?;
        Some(Box::new(score))
    }

    fn may_help(&self, event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
        hints::may_help(event, pod, cluster)
    }

    fn may_help_some(&self, event: &Event<'_>, cluster: &Cluster) -> bool {
        hints::may_help_some(event, cluster)
    }
}
