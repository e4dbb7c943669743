//! Filter and score plugin `TaintToleration`: rejects nodes with untolerated `NoSchedule` and `NoExecute` taints, and
//! prefers nodes with fewer untolerated `PreferNoSchedule` taints.

use std::sync::Arc;

use super::node_predicate_cache::{MatchingNodes, NodePredicateCache};
use super::{
    ClusterEvent, FilterRejection, NodeFilter, NodeScorer, Plugin, PreFilterRejection,
    PreFilterResult, SCORE_MAX, normalise_by_max,
};
use crate::cluster::{ClusterState, NodeId, PodInfo};
use crate::model::{Node, Taint, TaintEffect, Toleration};

#[derive(Debug, Default)]
pub struct TaintToleration {
    without_hard_taints: NodePredicateCache<()>,
    without_soft_taints: NodePredicateCache<()>,
    tolerated: NodePredicateCache<Arc<[Toleration]>>,
}

const UNTOLERATED: FilterRejection = FilterRejection {
    is_resolvable: false,
    reason_code: 0,
};

/// The first `NoSchedule` or `NoExecute` taint that these tolerations do not tolerate.
pub(super) fn untolerated_taint<'n>(
    node: &'n Node,
    tolerations: &[Toleration],
) -> Option<&'n Taint> {
    let mut taints = node.taints.iter();
    taints.find(|taint| {
        taint.effect != TaintEffect::PreferNoSchedule && !is_tolerated(taint, tolerations)
    })
}

fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    let mut tolerations = tolerations.iter();
    tolerations.any(|toleration| toleration.tolerates(taint))
}

struct TaintFilter<'c> {
    tolerated: Arc<MatchingNodes>,
    tolerations: &'c [Toleration],
    cluster: &'c ClusterState,
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        let nodes = cluster.nodes();
        let has_none = |node: &Node| untolerated_taint(node, &[]).is_none();
        if self
            .without_hard_taints
            .matching_nodes(&(), nodes, has_none)
            .matches_all
        {
            return Ok(PreFilterResult::default());
        }
        let tolerations = &pod.pod.tolerations;
        let tolerated = self.tolerated.matching_nodes(tolerations, nodes, |node| {
            untolerated_taint(node, tolerations).is_none()
        });
        if tolerated.matches_all {
            return Ok(PreFilterResult::default());
        }
        let filter = TaintFilter {
            tolerated,
            tolerations,
            cluster,
        };
        Ok(PreFilterResult {
            filter: Some(Box::new(filter)),
            candidate_nodes: None,
        })
    }

    fn pre_score<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScorer + 'c>> {
        let has_no_soft_taint = |node: &Node| {
            let mut taints = node.taints.iter();
            !taints.any(|taint| taint.effect == TaintEffect::PreferNoSchedule)
        };
        let unasked =
            self.without_soft_taints
                .matching_nodes(&(), cluster.nodes(), has_no_soft_taint);
        Some(Box::new(TaintScorer {
            without_soft_taints: unasked,
            tolerations: &pod.pod.tolerations,
            cluster,
        }))
    }

    fn queueing_hint(
        &self,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        let is_tolerated = |node: &Node| untolerated_taint(node, &pod.pod.tolerations).is_none();
        let is_tolerated_now = |node: NodeId| cluster.nodes().node(node).is_some_and(is_tolerated);
        match event {
            ClusterEvent::NodeAdded(node) => is_tolerated_now(*node),
            ClusterEvent::NodeUpdated { node, old } => {
                !is_tolerated(old) && is_tolerated_now(*node)
            }
            ClusterEvent::PendingPodUpdated { old } => old.tolerations != pod.pod.tolerations,
            _ => false,
        }
    }

    fn is_event_relevant(&self, event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
        event.adds_or_changes_node(cluster, |old, new| old.taints != new.taints)
    }
}

impl NodeFilter for TaintFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection> {
        match self.tolerated.nodes.contains(node) {
            true => Ok(()),
            false => Err(UNTOLERATED),
        }
    }

    fn reasons(&self, _refusal: FilterRejection) -> Vec<String> {
        vec!["node(s) had untolerated taint(s)".to_owned()]
    }

    fn detail(&self, node: NodeId, _refusal: FilterRejection) -> Option<String> {
        let taint = untolerated_taint(self.cluster.nodes().node(node)?, self.tolerations)?;
        Some(format!("the pod does not tolerate the taint {taint}"))
    }
}

struct TaintScorer<'c> {
    /// Nodes without `PreferNoSchedule` taints.
    without_soft_taints: Arc<MatchingNodes>,
    tolerations: &'c [Toleration],
    cluster: &'c ClusterState,
}

impl NodeScorer for TaintScorer<'_> {
    /// The number of untolerated `PreferNoSchedule` taints.
    fn score(&self, node: NodeId) -> i64 {
        if self.without_soft_taints.nodes.contains(node) {
            return 0;
        }
        let Some(node) = self.cluster.nodes().node(node) else {
            return 0;
        };
        let taints = node.taints.iter();
        let untolerated = taints.filter(|taint| {
            taint.effect == TaintEffect::PreferNoSchedule && !is_tolerated(taint, self.tolerations)
        });
        untolerated.count() as i64
    }

    fn normalise(&self, _nodes: &[NodeId], scores: &mut [i64]) {
        normalise_by_max(scores);
        for score in scores {
            *score = SCORE_MAX - *score;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plugins::testing::{
        add_pod, cluster, filter_results, node_id, node_with, pod, rejection_detail, scores,
    };

    fn tainted(name: &str, taints: Value) -> Node {
        node_with(name, json!({"spec": {"taints": taints}}))
    }

    #[test]
    fn untolerated_taints_reject_pods() {
        const NO: &str = "!node(s) had untolerated taint(s)";
        let user = json!({"key": "dedicated", "value": "user1", "effect": "NoSchedule"});
        let soft = json!({"key": "dedicated", "value": "user1", "effect": "PreferNoSchedule"});
        let hard = json!({"key": "foo", "value": "bar", "effect": "NoExecute"});
        for (taints, tolerations, expected) in [
            (json!([]), json!([]), ""),
            (json!([user]), json!([]), NO),
            (
                json!([user]),
                json!([{"key": "dedicated", "value": "user1", "effect": "NoSchedule"}]),
                "",
            ),
            (
                json!([user]),
                json!([{"key": "dedicated", "value": "user2", "effect": "NoSchedule"}]),
                NO,
            ),
            (
                json!([user]),
                json!([{"key": "dedicated", "operator": "Exists"}]),
                "",
            ),
            (
                json!([user]),
                json!([{"key": "dedicated", "value": "user1", "effect": "PreferNoSchedule"}]),
                NO,
            ),
            (json!([user]), json!([{"operator": "Exists"}]), ""),
            (json!([soft]), json!([]), ""),
            (json!([hard]), json!([]), NO),
            (
                json!([user, hard]),
                json!([{"key": "dedicated", "operator": "Exists"}]),
                NO,
            ),
            (
                json!([user, hard]),
                json!([{"key": "dedicated", "operator": "Exists"}, {"key": "foo", "value": "bar"}]),
                "",
            ),
        ] {
            let mut cluster = cluster([tainted("a", taints.clone())], []);
            let spec = json!({"tolerations": tolerations});
            let pod = add_pod(&mut cluster, pod("p", json!({}), spec));
            let plugin = TaintToleration::default();
            let results = filter_results(&plugin, &cluster, pod).unwrap();
            assert_eq!(results, [expected], "{taints} {tolerations}");
        }
    }

    #[test]
    fn untolerated_prefer_no_schedule_taints_lower_the_score() {
        let soft = |key: &str| json!({"key": key, "value": "x", "effect": "PreferNoSchedule"});
        let tolerates = |key: &str| json!({"key": key, "value": "x", "effect": "PreferNoSchedule"});
        for (a, b, c, tolerations, expected) in [
            (json!([]), json!([]), json!([]), json!([]), [100, 100, 100]),
            (
                json!([soft("k")]),
                json!([soft("l")]),
                json!([]),
                json!([tolerates("k")]),
                [100, 0, 100],
            ),
            (
                json!([]),
                json!([soft("k")]),
                json!([soft("k"), soft("l")]),
                json!([tolerates("k"), tolerates("l")]),
                [100, 100, 100],
            ),
            (
                json!([]),
                json!([soft("k")]),
                json!([soft("k"), soft("l")]),
                json!([]),
                [100, 50, 0],
            ),
            (
                json!([]),
                json!([{"key": "k", "value": "x", "effect": "NoSchedule"}]),
                json!([soft("k"), soft("l")]),
                json!([{"key": "k", "value": "x", "effect": "NoSchedule"}]),
                [100, 100, 0],
            ),
        ] {
            let nodes = [tainted("a", a), tainted("b", b.clone()), tainted("c", c)];
            let mut cluster = cluster(nodes, []);
            let spec = json!({"tolerations": tolerations});
            let pod = add_pod(&mut cluster, pod("p", json!({}), spec));
            let scores = scores(&TaintToleration::default(), &cluster, pod);
            assert_eq!(scores, expected, "{b} {tolerations}");
        }
    }

    #[test]
    fn hints_on_nodes_whose_taints_are_now_tolerated() {
        let (untainted, tainted_node) = (
            tainted("a", json!([])),
            tainted(
                "a",
                json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]),
            ),
        );
        let mut cluster = cluster([tainted_node.clone()], []);
        let pod = add_pod(&mut cluster, pod("p", json!({}), json!({})));
        let plugin = TaintToleration::default();
        assert_eq!(
            rejection_detail(&plugin, &cluster, pod, "a"),
            "the pod does not tolerate the taint k=v:NoSchedule"
        );
        let node = node_id(&cluster, "a");
        for (new, old, requeues) in [
            (&untainted, Some(&tainted_node), true),
            (&untainted, Some(&untainted), false),
            (&tainted_node, Some(&untainted), false),
            (&untainted, None, true),
            (&tainted_node, None, false),
        ] {
            cluster.set_node(new.clone());
            let event = match old {
                Some(old) => ClusterEvent::NodeUpdated { node, old },
                None => ClusterEvent::NodeAdded(node),
            };
            let slot = cluster.pods().get(pod).unwrap();
            assert_eq!(
                plugin.queueing_hint(&event, slot, &cluster),
                requeues,
                "{event:?}"
            );
        }
    }
}
