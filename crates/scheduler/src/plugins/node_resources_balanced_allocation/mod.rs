//! Score plugin `NodeResourcesBalancedAllocation`: prefers nodes on which the pod makes resource utilization more even.

use super::node_resources_fit::{ResourceSpec, ResourceUsageCalculator, UsageBasis};
use super::{NodeScorer, Plugin, SCORE_MAX};
use crate::cluster::{ClusterState, NodeId, PodInfo};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeResourcesBalancedAllocation {
    /// The resources compared. Weights have no effect, as upstream.
    pub resources: Vec<ResourceSpec>,
}

impl Default for NodeResourcesBalancedAllocation {
    fn default() -> Self {
        NodeResourcesBalancedAllocation {
            resources: ResourceSpec::cpu_and_memory(),
        }
    }
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    /// Pods without requests are not scored, as upstream: otherwise all of them would go to the same node.
    fn pre_score<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScorer + 'c>> {
        let measure = ResourceUsageCalculator::new(
            &self.resources,
            UsageBasis::Requested,
            &pod.pod,
            cluster.nodes(),
        );
        (!measure.requests_nothing())
            .then(|| Box::new(BalancedAllocationScorer { resources: measure }) as _)
    }
}

struct BalancedAllocationScorer<'c> {
    resources: ResourceUsageCalculator<'c>,
}

impl NodeScorer for BalancedAllocationScorer<'_> {
    fn score(&self, node: NodeId) -> i64 {
        let slot = self.resources.nodes.get(node);
        let levels = || self.resources.usage_on(slot);
        let with_pod =
            balance_score(levels().map(|level| used_fraction(level.with_pod, level.allocatable)));
        let without =
            balance_score(levels().map(|level| used_fraction(level.used, level.allocatable)));
        SCORE_MAX / 2 + (SCORE_MAX / 2 + with_pod - without) / 2
    }
}

fn used_fraction(used: i64, allocatable: i64) -> f64 {
    (used as f64 / allocatable as f64).min(1.0)
}

/// [`SCORE_MAX`] if all fractions are equal, reduced by their standard deviation.
fn balance_score(shares: impl Iterator<Item = f64> + Clone) -> i64 {
    let (mut count, mut sum) = (0, 0.0);
    let mut first_two = [0.0; 2];
    for share in shares.clone() {
        if let Some(slot) = first_two.get_mut(count) {
            *slot = share;
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
    use crate::plugins::testing::{add_pod, cluster, node_with, pod, requests, scores};

    const GPU: &str = "nvidia.com/gpu";

    fn check(allocatable: [Value; 2], used: [Value; 2], requested: Value, expected: [i64; 2]) {
        let named = ["a", "b"];
        let node = |(name, allocatable): (&&str, Value)| {
            node_with(name, json!({"status": {"allocatable": allocatable}}))
        };
        let existing = named.iter().zip(used).map(|(name, used)| {
            let spec = json!({"nodeName": name, "containers": requests(used)});
            pod(name, json!({}), spec)
        });
        let mut cluster = cluster(named.iter().zip(allocatable).map(node), existing);
        let spec = json!({"containers": requests(requested.clone())});
        let pod = add_pod(&mut cluster, pod("p", json!({}), spec));
        let mut plugin = NodeResourcesBalancedAllocation::default();
        plugin.resources.push(ResourceSpec {
            name: GPU.into(),
            weight: 1,
        });
        assert_eq!(scores(&plugin, &cluster, pod), expected, "{requested}");
    }

    #[test]
    fn nodes_score_by_improved_balance() {
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
    fn extended_resources_are_scored_only_if_requested() {
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
