//! `NodeResourcesBalancedAllocation`: nodes are better where a pod brings the uses of resources closer together.

use super::node_resources_fit::{Basis, Measure, ResourceWeight};
use super::{NodeScore, Plugin, SCORE_MAX};
use crate::cluster::{Cluster, NodeId, PodSlot};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeResourcesBalancedAllocation {
    /// What is compared; the weights have no effect, as upstream.
    pub resources: Vec<ResourceWeight>,
}

impl Default for NodeResourcesBalancedAllocation {
    fn default() -> Self {
        NodeResourcesBalancedAllocation {
            resources: ResourceWeight::usual(),
        }
    }
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    /// A pod that asks for nothing balances nothing: if it were rated, all such would go to the same node.
    fn score<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        let measure = Measure::new(
            &self.resources,
            Basis::Requested,
            &pod.facts,
            cluster.nodes(),
        );
        (!measure.adds_nothing()).then(|| Box::new(BalanceScore { measure }) as _)
    }
}

struct BalanceScore<'c> {
    measure: Measure<'c>,
}

impl NodeScore for BalanceScore<'_> {
    fn score(&self, node: NodeId) -> i64 {
        let slot = self.measure.nodes.get(node);
        let levels = || self.measure.levels(slot);
        let with_pod = balance(levels().map(|level| share(level.with_pod, level.has)));
        let without = balance(levels().map(|level| share(level.used, level.has)));
        SCORE_MAX / 2 + (SCORE_MAX / 2 + with_pod - without) / 2
    }
}

fn share(used: i64, has: i64) -> f64 {
    (used as f64 / has as f64).min(1.0)
}

/// 100 where all are used alike, less by their standard deviation.
fn balance(shares: impl Iterator<Item = f64> + Clone) -> i64 {
    let (mut count, mut sum) = (0, 0.0);
    let mut first_two = [0.0; 2];
    for share in shares.clone() {
        if let Some(place) = first_two.get_mut(count) {
            *place = share;
        }
        count += 1;
        sum += share;
    }
    let deviation = match count {
        0 | 1 => 0.0,
        2 => ((first_two[0] - first_two[1]) / 2.0).abs(),
        _ => {
            let mean = sum / count as f64;
            let squares: f64 = shares.map(|share| (share - mean) * (share - mean)).sum();
            (squares / count as f64).sqrt()
        }
    };
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}
