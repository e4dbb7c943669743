//! Filter plugin `NodeName`: a pod with `spec.nodeName` fits that node only.

use super::{
    ClusterEvent, FilterRejection, NodeFilter, Plugin, PreFilterRejection, PreFilterResult,
};
use crate::cluster::{ClusterState, NodeId, PodInfo};

#[derive(Debug, Clone, Copy, Default)]
pub struct NodeName;

const OTHER_NAME: FilterRejection = FilterRejection {
    is_resolvable: false,
    reason_code: 0,
};

struct NodeNameFilter<'c> {
    name: &'c str,
    node: Option<NodeId>,
}

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        let filter = pod.pod.node_name.as_deref().map(|name| {
            let node = cluster.nodes().find(name);
            Box::new(NodeNameFilter { name, node }) as _
        });
        Ok(PreFilterResult {
            filter,
            candidate_nodes: None,
        })
    }

    fn queueing_hint(
        &self,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        match event {
            ClusterEvent::NodeAdded(node) => {
                let name = &cluster.nodes().get(*node).name;
                pod.pod.node_name.as_ref() == Some(name)
            }
            ClusterEvent::PendingPodUpdated { old } => old.node_name != pod.pod.node_name,
            _ => false,
        }
    }

    fn is_event_relevant(&self, event: &ClusterEvent<'_>, _cluster: &ClusterState) -> bool {
        matches!(event, ClusterEvent::NodeAdded(_))
    }
}

impl NodeFilter for NodeNameFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection> {
        match self.node == Some(node) {
            true => Ok(()),
            false => Err(OTHER_NAME),
        }
    }

    fn reasons(&self, _refusal: FilterRejection) -> Vec<String> {
        vec!["node(s) didn't match the requested node name".to_owned()]
    }

    fn detail(&self, _node: NodeId, _refusal: FilterRejection) -> Option<String> {
        Some(format!("the pod requests node {}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{add_pod, cluster, filter_results, node, pod};

    #[test]
    fn a_pod_fits_only_the_node_in_its_spec() {
        const NO: &str = "!node(s) didn't match the requested node name";
        for (spec, expected) in [
            (json!({}), ["", ""]),
            (json!({"nodeName": "b"}), [NO, ""]),
            (json!({"nodeName": "x"}), [NO, NO]),
        ] {
            let mut cluster = cluster([node("a"), node("b")], []);
            let id = add_pod(&mut cluster, pod("p", json!({}), spec.clone()));
            assert_eq!(
                filter_results(&NodeName, &cluster, id).unwrap(),
                expected,
                "{spec}"
            );
        }
    }
}
