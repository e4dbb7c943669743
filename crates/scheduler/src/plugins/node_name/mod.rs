//! `NodeName`: a pod that names its node goes there and nowhere else.

use super::{Event, Filtering, NodeFilter, Plugin, Refusal, Unschedulable};
use crate::cluster::{Cluster, NodeId, PodSlot};

#[derive(Debug, Clone, Copy, Default)]
pub struct NodeName;

const OTHER_NAME: Refusal = Refusal {
    is_resolvable: false,
    what: 0,
};

struct NameFilter<'c> {
    name: &'c str,
    node: Option<NodeId>,
}

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        let filter = pod.facts.node_name.as_deref().map(|name| {
            let node = cluster.nodes().find(name);
            Box::new(NameFilter { name, node }) as _
        });
        Ok(Filtering { filter, only: None })
    }

    fn may_help(&self, event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
        match event {
            Event::NodeAdded(node) => {
                let name = &cluster.nodes().get(*node).name;
                pod.facts.node_name.as_ref() == Some(name)
            }
            Event::Itself { before } => before.node_name != pod.facts.node_name,
            _ => false,
        }
    }

    fn may_help_some(&self, event: &Event<'_>, _cluster: &Cluster) -> bool {
        matches!(event, Event::NodeAdded(_))
    }
}

impl NodeFilter for NameFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), Refusal> {
        match self.node == Some(node) {
            true => Ok(()),
            false => Err(OTHER_NAME),
        }
    }

    fn reasons(&self, _refusal: Refusal) -> Vec<String> {
        vec!["node(s) didn't match the requested node name".to_owned()]
    }

    fn detail(&self, _node: NodeId, _refusal: Refusal) -> Option<String> {
        Some(format!("the pod asks for node {}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{cluster, come, node, pod, verdicts};

    #[test]
    fn a_pod_goes_to_the_node_that_it_names() {
        const NO: &str = "!node(s) didn't match the requested node name";
        for (spec, expected) in [
            (json!({}), ["", ""]),
            (json!({"nodeName": "b"}), [NO, ""]),
            (json!({"nodeName": "x"}), [NO, NO]),
        ] {
            let mut cluster = cluster([node("a"), node("b")], []);
            let id = come(&mut cluster, pod("p", json!({}), spec.clone()));
            assert_eq!(
                verdicts(&NodeName, &cluster, id).unwrap(),
                expected,
                "{spec}"
            );
        }
    }
}
