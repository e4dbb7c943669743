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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plugins::testing::{cluster, come, node_with, pod, requests, scores};

    const GPU: &str = "nvidia.com/gpu";

    fn check(has: [Value; 2], used: [Value; 2], asked: Value, expected: [i64; 2]) {
        let named = ["a", "b"];
        let room = |(name, room): (&&str, Value)| {
            node_with(name, json!({"status": {"allocatable": room}}))
        };
        let there = named.iter().zip(used).map(|(name, used)| {
            let spec = json!({"nodeName": name, "containers": requests(used)});
            pod(name, json!({}), spec)
        });
        let mut cluster = cluster(named.iter().zip(has).map(room), there);
        let spec = json!({"containers": requests(asked.clone())});
        let pod = come(&mut cluster, pod("p", json!({}), spec));
        let mut plugin = NodeResourcesBalancedAllocation::default();
        plugin.resources.push(ResourceWeight {
            name: GPU.into(),
            weight: 1,
        });
        assert_eq!(scores(&plugin, &cluster, pod), expected, "{asked}");
    }

    #[test]
    fn nodes_score_by_how_much_more_even_their_use_becomes() {
        let of = |cpu: &str, memory: i64| json!({"cpu": cpu, "memory": memory});
        let none = || json!({});
        let some = || of("3", 5000);
        let cpu = || json!({"cpu": "3"});
        check(
            [of("4", 10000), of("4", 10000)],
            [none(), none()],
            none(),
            [0, 0],
        );
        check(
            [of("4", 10000), of("6", 10000)],
            [none(), none()],
            some(),
            [68, 75],
        );
        check(
            [of("10", 20000), of("10", 20000)],
            [cpu(), some()],
            some(),
            [73, 74],
        );
        check(
            [of("10", 20000), of("10", 50000)],
            [cpu(), some()],
            some(),
            [73, 70],
        );
        let memory = json!({"memory": 5000});
        check(
            [of("3", 5000), of("3", 5000)],
            [cpu(), none()],
            memory,
            [100, 50],
        );
        check(
            [of("6", 10000), of("6", 10000)],
            [cpu(), some()],
            cpu(),
            [62, 62],
        );
    }

    #[test]
    fn special_resources_count_if_the_pod_asks_for_them() {
        let with_gpu = || json!({"cpu": "3500m", "memory": 40000, GPU: 8});
        let without = || json!({"cpu": "3500m", "memory": 40000});
        let some = || json!({"cpu": "3", "memory": 5000});
        let with_three = json!({"cpu": "3", "memory": 5000, GPU: 3});
        check(
            [with_gpu(), with_gpu()],
            [with_three, some()],
            json!({GPU: 1}),
            [75, 76],
        );
        check(
            [with_gpu(), without()],
            [json!({}), json!({})],
            some(),
            [56, 56],
        );
    }
}
