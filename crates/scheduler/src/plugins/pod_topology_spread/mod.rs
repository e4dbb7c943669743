//! `PodTopologySpread`: pods that belong together are spread evenly.

mod constraints;
mod eligible;
mod filter;
mod hints;
mod score;
mod sums;
#[cfg(test)]
mod tests;

use super::{Event, Filtering, NodeScore, Plugin, Unschedulable};
use crate::cluster::{Cluster, NodeId, PodSlot};
use crate::model::{NodePolicy, SpreadConstraint, WhenUnsatisfiable};
use eligible::EligibleNodes;
use filter::SpreadFilter;
use score::SpreadScore;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// What is done about pods that say nothing of spreading themselves, where services or controllers pick them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultConstraints {
    /// Over nodes and zones, where it can be.
    #[default]
    System,
    /// These; their selectors have no effect.
    List(Vec<SpreadConstraint>),
}

#[derive(Debug)]
pub struct PodTopologySpread {
    defaults: Vec<SpreadConstraint>,
    /// Then nodes without one of the labels are still rated by the others.
    is_system: bool,
    eligible: EligibleNodes,
}

impl PodTopologySpread {
    pub fn new(defaults: DefaultConstraints) -> PodTopologySpread {
        let (defaults, is_system) = match defaults {
            DefaultConstraints::System => (vec![wish(HOSTNAME, 3), wish(ZONE, 5)], true),
            DefaultConstraints::List(constraints) => (constraints, false),
        };
        PodTopologySpread {
            defaults,
            is_system,
            eligible: EligibleNodes::default(),
        }
    }
}

fn wish(topology_key: &str, max_skew: i32) -> SpreadConstraint {
    SpreadConstraint {
        max_skew,
        topology_key: topology_key.into(),
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        selector: rhumb_meta::labels::Selector::nothing(),
        min_domains: None,
        node_affinity_policy: NodePolicy::Honor,
        node_taints_policy: NodePolicy::Ignore,
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        let filter = SpreadFilter::new(self, pod, cluster);
        Ok(Filtering {
            filter: filter.map(|filter| Box::new(filter) as _),
            only: None,
        })
    }

    fn score<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        let score = SpreadScore::new(self, pod, cluster, nodes)?;
        Some(Box::new(score))
    }

    fn topology_keys(&self) -> Vec<&str> {
        let defaults = self.defaults.iter();
        defaults.map(|default| &*default.topology_key).collect()
    }

    fn may_help(&self, event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
        hints::may_help(self, event, pod, cluster)
    }

    fn may_help_some(&self, event: &Event<'_>, cluster: &Cluster) -> bool {
        hints::may_help_some(event, cluster)
    }
}
