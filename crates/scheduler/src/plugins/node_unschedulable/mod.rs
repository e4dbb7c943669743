//! `NodeUnschedulable`: nodes that are cordoned take only pods that tolerate it.

use std::sync::Arc;

use super::answers::{Answer, NodeAnswers};
use super::{Event, Filtering, NodeFilter, Plugin, Refusal, Unschedulable};
use crate::cluster::{Cluster, NodeId, PodSlot};
use crate::model::{Effect, Pod, Taint};

#[derive(Debug, Default)]
pub struct NodeUnschedulable {
    open: NodeAnswers<()>,
}

const CORDONED: Refusal = Refusal {
    is_resolvable: false,
    what: 0,
};

struct OpenFilter {
    open: Arc<Answer>,
}

fn tolerates_it(pod: &Pod) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: Effect::NoSchedule,
    };
    pod.tolerations
        .iter()
        .any(|toleration| toleration.tolerates(&taint))
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        let open = self
            .open
            .ask(&(), cluster.nodes(), |node| !node.is_unschedulable);
        if open.is_everywhere || tolerates_it(&pod.facts) {
            return Ok(Filtering::default());
        }
        Ok(Filtering {
            filter: Some(Box::new(OpenFilter { open })),
            only: None,
        })
    }

    fn may_help(&self, event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
        let is_open = |node: NodeId| {
            let facts = cluster.nodes().facts(node);
            facts.is_some_and(|facts| !facts.is_unschedulable)
        };
        match event {
            Event::NodeAdded(node) => is_open(*node),
            Event::NodeChanged { node, before } => before.is_unschedulable && is_open(*node),
            Event::Itself { before } => {
                before.tolerations != pod.facts.tolerations && tolerates_it(&pod.facts)
            }
            _ => false,
        }
    }

    fn may_help_some(&self, event: &Event<'_>, cluster: &Cluster) -> bool {
        event.brings_node(cluster, |before, now| {
            before.is_unschedulable && !now.is_unschedulable
        })
    }
}

impl NodeFilter for OpenFilter {
    fn check(&self, node: NodeId) -> Result<(), Refusal> {
        match self.open.nodes.contains(node) {
            true => Ok(()),
            false => Err(CORDONED),
        }
    }

    fn reasons(&self, _refusal: Refusal) -> Vec<String> {
        vec!["node(s) were unschedulable".to_owned()]
    }

    fn detail(&self, _node: NodeId, _refusal: Refusal) -> Option<String> {
        Some("the node is cordoned (spec.unschedulable)".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{cluster, come, id, node, node_with, pod, verdicts};

    #[test]
    fn cordoned_nodes_take_only_pods_that_tolerate_it() {
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
            let pod = come(&mut cluster, pod("p", json!({}), spec));
            let plugin = NodeUnschedulable::default();
            let said = verdicts(&plugin, &cluster, pod).unwrap();
            assert_eq!(said, expected, "{tolerations}");
        }
    }

    #[test]
    fn a_node_that_opens_helps() {
        let mut cluster = cluster([node("a")], []);
        let pod = come(&mut cluster, pod("p", json!({}), json!({})));
        let slot = cluster.pods().get(pod).unwrap();
        let (open, closed) = (
            node("a"),
            node_with("a", json!({"spec": {"unschedulable": true}})),
        );
        let node = id(&cluster, "a");
        let plugin = NodeUnschedulable::default();
        for (event, helps) in [
            (Event::NodeAdded(node), true),
            (
                Event::NodeChanged {
                    node,
                    before: &closed,
                },
                true,
            ),
            (
                Event::NodeChanged {
                    node,
                    before: &open,
                },
                false,
            ),
            (Event::PodPlaced(pod), false),
        ] {
            assert_eq!(plugin.may_help(&event, slot, &cluster), helps, "{event:?}");
        }
    }
}
