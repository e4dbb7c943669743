//! Filter plugin `NodePorts`: rejects nodes on which a requested host port is in use.

use super::{
    ClusterEvent, FilterRejection, NodeFilter, Plugin, PreFilterRejection, PreFilterResult,
};
use crate::cluster::{ClusterState, NodeId, PodInfo};
use crate::model::{HostPort, Pod};

#[derive(Debug, Clone, Copy, Default)]
pub struct NodePorts;

const PORT_TAKEN: FilterRejection = FilterRejection {
    is_resolvable: true,
    reason_code: 0,
};

struct NodePortsFilter<'c> {
    wanted: &'c [HostPort],
    cluster: &'c ClusterState,
}

impl<'c> NodePortsFilter<'c> {
    /// A requested port that is in use on the node, and the pod that uses it.
    fn conflict(&self, node: NodeId) -> Option<(&'c HostPort, &'c PodInfo)> {
        let pods = self.cluster.nodes().get(node).pods_with_ports().iter();
        let mut pods = pods.filter_map(|pod| self.cluster.pods().get(*pod));
        pods.find_map(|pod| Some((conflicting_port(self.wanted, &pod.pod)?, pod)))
    }
}

/// The first requested port that conflicts with a port of the other pod.
fn conflicting_port<'c>(wanted: &'c [HostPort], other: &Pod) -> Option<&'c HostPort> {
    let mut wanted = wanted.iter();
    wanted.find(|port| other.ports.iter().any(|taken| taken.conflicts(port)))
}

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        let wanted = &*pod.pod.ports;
        if wanted.is_empty() {
            return Ok(PreFilterResult::default());
        }
        Ok(PreFilterResult {
            filter: Some(Box::new(NodePortsFilter { wanted, cluster })),
            candidate_nodes: None,
        })
    }

    fn queueing_hint(
        &self,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        let wants_one_of = |other: &Pod| conflicting_port(&pod.pod.ports, other).is_some();
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::AssignedPodDeleted(removed) => {
                removed.node_id.is_some() && wants_one_of(&removed.pod)
            }
            ClusterEvent::AssignedPodUpdated {
                pod: other, old, ..
            } => {
                let new = cluster.pods().get(*other);
                wants_one_of(old) && new.is_none_or(|new| new.pod.ports != old.ports)
            }
            ClusterEvent::PendingPodUpdated { old } => old.ports != pod.pod.ports,
            _ => false,
        }
    }

    fn is_event_relevant(&self, event: &ClusterEvent<'_>, _cluster: &ClusterState) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::AssignedPodDeleted(removed) => !removed.pod.ports.is_empty(),
            ClusterEvent::AssignedPodUpdated { old, .. } => !old.ports.is_empty(),
            _ => false,
        }
    }
}

impl NodeFilter for NodePortsFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection> {
        match self.conflict(node) {
            None => Ok(()),
            Some(_) => Err(PORT_TAKEN),
        }
    }

    fn reasons(&self, _refusal: FilterRejection) -> Vec<String> {
        vec!["node(s) didn't have free ports for the requested pod ports".to_owned()]
    }

    fn detail(&self, node: NodeId, _refusal: FilterRejection) -> Option<String> {
        let (port, pod) = self.conflict(node)?;
        Some(format!(
            "port {}/{} is taken by pod {}",
            port.port, port.protocol, pod.pod.key
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plugins::testing::{add_pod, cluster, filter_results, node, pod, rejection_detail};

    /// Ports are written as `UDP/127.0.0.1/8080`.
    fn with_ports(name: &str, ports: &[&str], node: Option<&str>) -> Pod {
        let ports: Vec<Value> = ports
            .iter()
            .map(|port| {
                let parts: Vec<&str> = port.split('/').collect();
                let number: i32 = parts[2].parse().unwrap();
                json!({"protocol": parts[0], "hostIP": parts[1], "hostPort": number})
            })
            .collect();
        let containers = json!([{"name": "c", "image": "i", "ports": ports}]);
        pod(
            name,
            json!({}),
            json!({"containers": containers, "nodeName": node}),
        )
    }

    #[test]
    fn host_ports_conflict_by_protocol_address_and_port() {
        const NO: &str = "node(s) didn't have free ports for the requested pod ports";
        for (wanted, taken, expected) in [
            (&[][..], &[][..], ""),
            (&["UDP/127.0.0.1/8080"], &["UDP/127.0.0.1/9090"], ""),
            (&["UDP/127.0.0.1/8080"], &["UDP/127.0.0.1/8080"], NO),
            (&["TCP/127.0.0.1/8080"], &["TCP/127.0.0.1/8080"], NO),
            (&["TCP/127.0.0.1/8080"], &["TCP/127.0.0.2/8080"], ""),
            (&["TCP/127.0.0.1/8080"], &["UDP/127.0.0.1/8080"], ""),
            (
                &["UDP/127.0.0.1/8000", "UDP/127.0.0.1/8080"],
                &["UDP/127.0.0.1/8080"],
                NO,
            ),
            (&["TCP/0.0.0.0/8001"], &["TCP/127.0.0.1/8001"], NO),
            (&["TCP/127.0.0.1/8001"], &["TCP/0.0.0.0/8001"], NO),
            (
                &["TCP/10.0.10.10/8001", "TCP/0.0.0.0/8001"],
                &["TCP/127.0.0.1/8001"],
                NO,
            ),
            (&["UDP/0.0.0.0/8001"], &["TCP/127.0.0.1/8001"], ""),
            (&["TCP/127.0.0.1/0"], &["TCP/127.0.0.1/0"], ""),
        ] {
            let existing = with_ports("there", taken, Some("a"));
            let mut cluster = cluster([node("a")], [existing]);
            let pod = add_pod(&mut cluster, with_ports("p", wanted, None));
            let results = filter_results(&NodePorts, &cluster, pod).unwrap();
            assert_eq!(results, [expected], "{wanted:?} {taken:?}");
            let removed = cluster.remove_pod("default/there").unwrap();
            let slot = cluster.pods().get(pod).unwrap();
            let requeues = NodePorts.queueing_hint(
                &ClusterEvent::AssignedPodDeleted(&removed),
                slot,
                &cluster,
            );
            assert_eq!(requeues, expected == NO, "{wanted:?} {taken:?}");
            assert_eq!(filter_results(&NodePorts, &cluster, pod).unwrap(), [""]);
        }
    }

    #[test]
    fn the_detail_names_the_pod_with_the_port() {
        let mut cluster = cluster(
            [node("a")],
            [with_ports("there", &["TCP/0.0.0.0/80"], Some("a"))],
        );
        let pod = add_pod(&mut cluster, with_ports("p", &["TCP//80"], None));
        assert_eq!(
            rejection_detail(&NodePorts, &cluster, pod, "a"),
            "port 80/TCP is taken by pod default/there"
        );
    }
}
