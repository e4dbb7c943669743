//! `NodePorts`: two pods that want the same port of a node cannot both be there.

use super::{Event, Filtering, NodeFilter, Plugin, Refusal, Unschedulable};
use crate::cluster::{Cluster, NodeId, PodSlot};
use crate::model::{HostPort, Pod};

#[derive(Debug, Clone, Copy, Default)]
pub struct NodePorts;

const TAKEN: Refusal = Refusal {
    is_resolvable: true,
    what: 0,
};

struct PortFilter<'c> {
    wanted: &'c [HostPort],
    cluster: &'c Cluster,
}

impl<'c> PortFilter<'c> {
    /// A port that is wanted and taken on a node, and who has it.
    fn taken(&self, node: NodeId) -> Option<(&'c HostPort, &'c PodSlot)> {
        let pods = self.cluster.nodes().get(node).pods_with_ports().iter();
        let mut pods = pods.filter_map(|pod| self.cluster.pods().get(*pod));
        pods.find_map(|pod| Some((common(self.wanted, &pod.facts)?, pod)))
    }
}

/// A port that another pod takes too.
fn common<'c>(wanted: &'c [HostPort], other: &Pod) -> Option<&'c HostPort> {
    let mut wanted = wanted.iter();
    wanted.find(|port| other.ports.iter().any(|taken| taken.conflicts(port)))
}

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        let wanted = &*pod.facts.ports;
        if wanted.is_empty() {
            return Ok(Filtering::default());
        }
        Ok(Filtering {
            filter: Some(Box::new(PortFilter { wanted, cluster })),
            only: None,
        })
    }

    fn may_help(&self, event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
        let wants_one_of = |other: &Pod| common(&pod.facts.ports, other).is_some();
        match event {
            Event::NodeAdded(_) => true,
            Event::PodLeft(departed) => departed.place.is_some() && wants_one_of(&departed.facts),
            Event::PodChanged {
                pod: other, before, ..
            } => {
                let now = cluster.pods().get(*other);
                wants_one_of(before) && now.is_none_or(|now| now.facts.ports != before.ports)
            }
            Event::Itself { before } => before.ports != pod.facts.ports,
            _ => false,
        }
    }

    fn may_help_some(&self, event: &Event<'_>, _cluster: &Cluster) -> bool {
        match event {
            Event::NodeAdded(_) => true,
            Event::PodLeft(departed) => !departed.facts.ports.is_empty(),
            Event::PodChanged { before, .. } => !before.ports.is_empty(),
            _ => false,
        }
    }
}

impl NodeFilter for PortFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), Refusal> {
        match self.taken(node) {
            None => Ok(()),
            Some(_) => Err(TAKEN),
        }
    }

    fn reasons(&self, _refusal: Refusal) -> Vec<String> {
        vec!["node(s) didn't have free ports for the requested pod ports".to_owned()]
    }

    fn detail(&self, node: NodeId, _refusal: Refusal) -> Option<String> {
        let (port, pod) = self.taken(node)?;
        Some(format!(
            "port {}/{} is taken by pod {}",
            port.port, port.protocol, pod.facts.key
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plugins::testing::{cluster, come, detail, node, pod, verdicts};

    /// `UDP/127.0.0.1/8080`
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
    fn ports_of_a_node_are_taken_once() {
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
            let pod = come(&mut cluster, with_ports("p", wanted, None));
            let said = verdicts(&NodePorts, &cluster, pod).unwrap();
            assert_eq!(said, [expected], "{wanted:?} {taken:?}");
            let departed = cluster.remove_pod("default/there").unwrap();
            let slot = cluster.pods().get(pod).unwrap();
            let helps = NodePorts.may_help(&Event::PodLeft(&departed), slot, &cluster);
            assert_eq!(helps, expected == NO, "{wanted:?} {taken:?}");
            assert_eq!(verdicts(&NodePorts, &cluster, pod).unwrap(), [""]);
        }
    }

    #[test]
    fn it_is_said_who_has_the_port() {
        let mut cluster = cluster(
            [node("a")],
            [with_ports("there", &["TCP/0.0.0.0/80"], Some("a"))],
        );
        let pod = come(&mut cluster, with_ports("p", &["TCP//80"], None));
        assert_eq!(
            detail(&NodePorts, &cluster, pod, "a"),
            "port 80/TCP is taken by pod default/there"
        );
    }
}
