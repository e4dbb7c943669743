//! Filter plugin `NodeUnschedulable`: cordoned nodes accept only pods that tolerate the unschedulable taint.

use std::sync::Arc;

use super::node_predicate_cache::{MatchingNodes, NodePredicateCache};
use super::{
    ClusterEvent, FilterRejection, NodeFilter, Plugin, PreFilterRejection, PreFilterResult,
};
use crate::cluster::{ClusterState, NodeId, PodInfo};
use crate::model::{Pod, Taint, TaintEffect};

#[derive(Debug, Default)]
pub struct NodeUnschedulable {
    schedulable_nodes: NodePredicateCache<()>,
}

const CORDONED: FilterRejection = FilterRejection {
    is_resolvable: false,
    reason_code: 0,
};

struct UnschedulableFilter {
    schedulable_nodes: Arc<MatchingNodes>,
}

fn tolerates_unschedulable(pod: &Pod) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: TaintEffect::NoSchedule,
    };
    pod.tolerations
        .iter()
        .any(|toleration| toleration.tolerates(&taint))
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        let open = self
            .schedulable_nodes
            .matching_nodes(&(), cluster.nodes(), |node| !node.is_unschedulable);
        if open.matches_all || tolerates_unschedulable(&pod.pod) {
            return Ok(PreFilterResult::default());
        }
        Ok(PreFilterResult {
            filter: Some(Box::new(UnschedulableFilter {
                schedulable_nodes: open,
            })),
            candidate_nodes: None,
        })
    }

    fn queueing_hint(
        &self,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        let is_open = |node: NodeId| {
            let node = cluster.nodes().node(node);
            node.is_some_and(|node| !node.is_unschedulable)
        };
        match event {
            ClusterEvent::NodeAdded(node) => is_open(*node),
            ClusterEvent::NodeUpdated { node, old } => old.is_unschedulable && is_open(*node),
            ClusterEvent::PendingPodUpdated { old } => {
                old.tolerations != pod.pod.tolerations && tolerates_unschedulable(&pod.pod)
            }
            _ => false,
        }
    }

    fn is_event_relevant(&self, event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
        event.adds_or_changes_node(cluster, |old, new| {
            old.is_unschedulable && !new.is_unschedulable
        })
    }
}

impl NodeFilter for UnschedulableFilter {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection> {
        match self.schedulable_nodes.nodes.contains(node) {
            true => Ok(()),
            false => Err(CORDONED),
        }
    }

    fn reasons(&self, _refusal: FilterRejection) -> Vec<String> {
        vec!["node(s) were unschedulable".to_owned()]
    }

    fn detail(&self, _node: NodeId, _refusal: FilterRejection) -> Option<String> {
        Some("the node is cordoned (spec.unschedulable)".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{
        add_pod, cluster, filter_results, node, node_id, node_with, pod,
    };

    #[test]
    fn cordoned_nodes_accept_only_tolerating_pods() {
        const NO: &str = "!node(s) were unschedulable";
        let key = "node.kubernetes.io/unschedulable";
        for (tolerations, expected) in [
            (json!([]), ["", NO]),
            (
                json!([{"key": key, "operator": "Exists", "effect": "NoSchedule"}]),
                ["", ""],
            ),
            (json!([{"key": key, "effect": "NoSchedule"}]), ["", ""]),
            (json!([{"operator": "Exists"}]), ["", ""]),
            (
                json!([{"key": key, "operator": "Exists", "effect": "NoExecute"}]),
                ["", NO],
            ),
            (json!([{"key": "other", "operator": "Exists"}]), ["", NO]),
        ] {
            let closed = node_with("b", json!({"spec": {"unschedulable": true}}));
            let mut cluster = cluster([node("a"), closed], []);
            let spec = json!({"tolerations": tolerations});
            let pod = add_pod(&mut cluster, pod("p", json!({}), spec));
            let plugin = NodeUnschedulable::default();
            let results = filter_results(&plugin, &cluster, pod).unwrap();
            assert_eq!(results, expected, "{tolerations}");
        }
    }

    #[test]
    fn hints_on_uncordoned_nodes() {
        let mut cluster = cluster([node("a")], []);
        let pod = add_pod(&mut cluster, pod("p", json!({}), json!({})));
        let slot = cluster.pods().get(pod).unwrap();
        let (open, closed) = (
            node("a"),
            node_with("a", json!({"spec": {"unschedulable": true}})),
        );
        let node = node_id(&cluster, "a");
        let plugin = NodeUnschedulable::default();
        for (event, requeues) in [
            (ClusterEvent::NodeAdded(node), true),
            (ClusterEvent::NodeUpdated { node, old: &closed }, true),
            (ClusterEvent::NodeUpdated { node, old: &open }, false),
            (ClusterEvent::AssignedPodAdded(pod), false),
        ] {
            assert_eq!(
                plugin.queueing_hint(&event, slot, &cluster),
                requeues,
                "{event:?}"
            );
        }
    }
}
