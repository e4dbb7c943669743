//! Filter and score plugin `PodTopologySpread`: spreads matching pods evenly over topology domains.

mod constraints;
mod eligibility;
mod eligible_counts;
mod filter;
mod queueing_hints;
mod score;
#[cfg(test)]
mod tests;

use super::{ClusterEvent, NodeScorer, Plugin, PreFilterRejection, PreFilterResult};
use crate::cluster::{ClusterState, NodeId, PodInfo};
use crate::model::{NodeInclusionPolicy, TopologySpreadConstraint, WhenUnsatisfiable};
use eligibility::EligibilityCache;
use filter::TopologySpreadFilter;
use score::TopologySpreadScorer;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Constraints for pods without `topologySpreadConstraints` that a service or controller selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultConstraints {
    /// Upstream's defaults: soft constraints over hostname and zone.
    #[default]
    System,
    /// These constraints; their selectors are ignored.
    List(Vec<TopologySpreadConstraint>),
}

#[derive(Debug)]
pub struct PodTopologySpread {
    defaults: Vec<TopologySpreadConstraint>,
    /// With the system defaults, nodes that lack one of the labels are still scored by the other.
    uses_system_defaults: bool,
    eligibility: EligibilityCache,
}

impl PodTopologySpread {
    pub fn new(defaults: DefaultConstraints) -> PodTopologySpread {
        let (defaults, uses_system_defaults) = match defaults {
            DefaultConstraints::System => (
                vec![soft_constraint(HOSTNAME, 3), soft_constraint(ZONE, 5)],
                true,
            ),
            DefaultConstraints::List(constraints) => (constraints, false),
        };
        PodTopologySpread {
            defaults,
            uses_system_defaults,
            eligibility: EligibilityCache::default(),
        }
    }
}

fn soft_constraint(topology_key: &str, max_skew: i32) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew,
        topology_key: topology_key.into(),
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        selector: rhumb_meta::labels::Selector::nothing(),
        min_domains: None,
        node_affinity_policy: NodeInclusionPolicy::Honor,
        node_taints_policy: NodeInclusionPolicy::Ignore,
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        let filter = TopologySpreadFilter::new(self, pod, cluster);
        Ok(PreFilterResult {
            filter: filter.map(|filter| Box::new(filter) as _),
            candidate_nodes: None,
        })
    }

    fn pre_score<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScorer + 'c>> {
        let score = TopologySpreadScorer::new(self, pod, cluster, nodes)?;
        Some(Box::new(score))
    }

    fn topology_keys(&self) -> Vec<&str> {
        let defaults = self.defaults.iter();
        defaults.map(|default| &*default.topology_key).collect()
    }

    fn queueing_hint(
        &self,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        queueing_hints::queueing_hint(self, event, pod, cluster)
    }

    fn is_event_relevant(&self, event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
        queueing_hints::is_event_relevant(event, cluster)
    }
}
