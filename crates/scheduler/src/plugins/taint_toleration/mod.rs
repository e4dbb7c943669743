//! `TaintToleration`: nodes with taints take only pods that tolerate them, and are not liked for those that only ask.

use std::sync::Arc;

use super::answers::{Answer, NodeAnswers};
use super::{
    Event, Filtering, NodeFilter, NodeScore, Plugin, Refusal, SCORE_MAX, Unschedulable,
    normalise_by_best,
};
use crate::cluster::{Cluster, NodeId, PodSlot};
use crate::model::{Effect, Node, Taint, Toleration};

#[derive(Debug, Default)]
pub struct TaintToleration {
    untainted: NodeAnswers<()>,
    unasked: NodeAnswers<()>,
    tolerated: NodeAnswers<Arc<[Toleration]>>,
}

const UNTOLERATED: Refusal = Refusal {
    is_resolvable: false,
    what: 0,
};

/// The first taint that keeps a pod with these tolerations away.
pub(super) fn repelling_taint<'n>(node: &'n Node, tolerations: &[Toleration]) -> Option<&'n Taint> {
    let mut taints = node.taints.iter();
    taints
        .find(|taint| taint.effect != Effect::PreferNoSchedule && !is_tolerated(taint, tolerations))
}

fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    let mut tolerations = tolerations.iter();
    tolerations.any(|toleration| toleration.tolerates(taint))
}

struct TaintFilter<'c> {
    tolerated: Arc<Answer>,
    tolerations: &'c [Toleration],
    cluster: &'c Cluster,
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        let nodes = cluster.nodes();
        let has_none = |node: &Node| repelling_taint(node, &[]).is_none();
        if self.untainted.ask(&(), nodes, has_none).is_everywhere {
            return Ok(Filtering::default());
        }
        let tolerations = &pod.facts.tolerations;
        let tolerated = self.tolerated.ask(tolerations, nodes, |node| {
            repelling_taint(node, tolerations).is_none()
        });
        if tolerated.is_everywhere {
            return Ok(Filtering::default());
        }
        let filter = TaintFilter {
            tolerated,
            tolerations,
            cluster,
        };
        Ok(Filtering {
            filter: Some(Box::new(filter)),
            only: None,
        })
    }

    fn score<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        let asks_nothing = |node: &Node| {
            let mut taints = node.taints.iter();
            !taints.any(|taint| taint.effect == Effect::PreferNoSchedule)
        };
        let unasked = self.unasked.ask(&(), cluster.nodes(), asks_nothing);
        Some(Box::new(TaintScore {
            unasked,
            tolerations: &pod.facts.tolerations,
            cluster,
        }))
    }

    fn may_help(&self, event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
        let does = |node: &Node| repelling_taint(node, &pod.facts.tolerations).is_none();
        let does_now = |node: NodeId| cluster.nodes().facts(node).is_some_and(does);
        match event {
            Event::NodeAdded(node) => does_now(*node),
            Event::NodeChanged { node, before } => !does(before) && does_now(*node),
            Event::Itself { before } => before.tolerations != pod.facts.tolerations,
            _ => false,
        }
    }

    fn may_help_some(&self, event: &Event<'_>, cluster: &Cluster) -> bool {
        event.brings_node(cluster, |before, now| before.taints != now.taints)
    }
}

impl NodeFilter for TaintFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), Refusal> {
        match self.tolerated.nodes.contains(node) {
            true => Ok(()),
            false => Err(UNTOLERATED),
        }
    }

    fn reasons(&self, _refusal: Refusal) -> Vec<String> {
        vec!["node(s) had untolerated taint(s)".to_owned()]
    }

    fn detail(&self, node: NodeId, _refusal: Refusal) -> Option<String> {
        let taint = repelling_taint(self.cluster.nodes().facts(node)?, self.tolerations)?;
        Some(format!("the pod does not tolerate the taint {taint}"))
    }
}

struct TaintScore<'c> {
    /// Nodes without a taint that asks pods to stay away.
    unasked: Arc<Answer>,
    tolerations: &'c [Toleration],
    cluster: &'c Cluster,
}

impl NodeScore for TaintScore<'_> {
    /// How many taints ask the pod to stay away.
    fn score(&self, node: NodeId) -> i64 {
        if self.unasked.nodes.contains(node) {
            return 0;
        }
        let Some(facts) = self.cluster.nodes().facts(node) else {
            return 0;
        };
        let taints = facts.taints.iter();
        let asking = taints.filter(|taint| {
            taint.effect == Effect::PreferNoSchedule && !is_tolerated(taint, self.tolerations)
        });
        asking.count() as i64
    }

    fn normalise(&self, _nodes: &[NodeId], scores: &mut [i64]) {
        normalise_by_best(scores);
        for score in scores {
            *score = SCORE_MAX - *score;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plugins::testing::{cluster, come, detail, id, node_with, pod, scores, verdicts};

    fn tainted(name: &str, taints: Value) -> Node {
        node_with(name, json!({"spec": {"taints": taints}}))
    }

    #[test]
    fn taints_keep_pods_away_that_do_not_tolerate_them() {
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
            let pod = come(&mut cluster, pod("p", json!({}), spec));
            let plugin = TaintToleration::default();
            let said = verdicts(&plugin, &cluster, pod).unwrap();
            assert_eq!(said, [expected], "{taints} {tolerations}");
        }
    }

    #[test]
    fn nodes_that_only_ask_score_less() {
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
            let pod = come(&mut cluster, pod("p", json!({}), spec));
            let said = scores(&TaintToleration::default(), &cluster, pod);
            assert_eq!(said, expected, "{b} {tolerations}");
        }
    }

    #[test]
    fn what_helps_is_a_node_whose_taints_the_pod_tolerates_now() {
        let (free, taken) = (
            tainted("a", json!([])),
            tainted(
                "a",
                json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]),
            ),
        );
        let mut cluster = cluster([taken.clone()], []);
        let pod = come(&mut cluster, pod("p", json!({}), json!({})));
        let plugin = TaintToleration::default();
        assert_eq!(
            detail(&plugin, &cluster, pod, "a"),
            "the pod does not tolerate the taint k=v:NoSchedule"
        );
        let node = id(&cluster, "a");
        for (now, before, helps) in [
            (&free, Some(&taken), true),
            (&free, Some(&free), false),
            (&taken, Some(&free), false),
            (&free, None, true),
            (&taken, None, false),
        ] {
            cluster.set_node(now.clone());
            let event = match before {
                Some(before) => Event::NodeChanged { node, before },
                None => Event::NodeAdded(node),
            };
            let slot = cluster.pods().get(pod).unwrap();
            assert_eq!(plugin.may_help(&event, slot, &cluster), helps, "{event:?}");
        }
    }
}
