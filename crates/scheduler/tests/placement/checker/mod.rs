//! Checks from the objects of a cluster alone that every pod is on an allowed node. It does not know the order in which
//! pods were bound, so it checks only invariants that hold in any order. Entry point: [`violations`].

mod affinity_terms;
mod resource_amounts;
mod selectors;

use std::collections::{BTreeMap, HashMap};

use resource_amounts::{ResourceAmounts, amounts, requests};
use selectors::{satisfies_node_affinity, tolerates_all};
use serde_json::Value;

pub(crate) use affinity_terms::unmet_affinity;

/// The objects of a cluster, as listed by the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterObjects<'a> {
    pub(crate) nodes: &'a [Value],
    pub(crate) namespaces: &'a [Value],
    pub(crate) pods: &'a [Value],
}

/// A non-terminal pod and its node.
#[derive(Debug, Clone, Copy)]
struct PlacedPod<'a> {
    pod: &'a Value,
    node: &'a Value,
}

/// Descriptions of all violated constraints.
pub(crate) fn violations(objects: &ClusterObjects<'_>) -> Vec<String> {
    let (placed, mut found) = placed_pods(objects);
    for one in &placed {
        if !satisfies_node_affinity(one.pod, one.node) {
            found.push(format!(
                "{one}: node selector or node affinity does not match the node"
            ));
        }
        if !tolerates_all(one.pod, one.node) {
            found.push(format!("{one}: untolerated taint"));
        }
    }
    let mut by_node: BTreeMap<&str, Vec<PlacedPod<'_>>> = BTreeMap::new();
    for one in &placed {
        by_node.entry(name(one.node)).or_default().push(*one);
    }
    for (node, pods) in &by_node {
        found.extend(overcommitted_resources(node, pods));
        found.extend(conflicting_ports(node, pods));
    }
    found.extend(affinity_terms::anti_affinity_violations(objects, &placed));
    found
}

/// Pods whose node changed or was cleared, from watch events in order.
pub(crate) fn rebound_pods(events: &[Value]) -> Vec<String> {
    let mut known: HashMap<&str, &str> = HashMap::new();
    let mut found = Vec::new();
    for event in events {
        let pod = &event["object"];
        let (uid, node) = (
            text(&pod["metadata"]["uid"]),
            text(&pod["spec"]["nodeName"]),
        );
        match known.get(uid) {
            Some(bound_to) if *bound_to != node => {
                let then = if node.is_empty() {
                    "unassigned".to_owned()
                } else {
                    format!("on {node}")
                };
                found.push(format!(
                    "{} was on {bound_to} and then {then}",
                    full_name(pod)
                ));
            }
            Some(_) => {}
            None if node.is_empty() => {}
            None => {
                known.insert(uid, node);
            }
        }
    }
    found
}

/// Placed pods, and violations for pods whose node does not exist.
fn placed_pods<'a>(objects: &ClusterObjects<'a>) -> (Vec<PlacedPod<'a>>, Vec<String>) {
    let nodes: HashMap<&str, &Value> = objects
        .nodes
        .iter()
        .map(|node| (name(node), node))
        .collect();
    let (mut placed, mut found) = (Vec::new(), Vec::new());
    for pod in objects.pods {
        let node = text(&pod["spec"]["nodeName"]);
        let has_ended = matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed");
        match nodes.get(node) {
            _ if node.is_empty() || has_ended => {}
            Some(node) => placed.push(PlacedPod { pod, node }),
            None => found.push(format!(
                "{} is on {node}, which does not exist",
                full_name(pod)
            )),
        }
    }
    (placed, found)
}

fn overcommitted_resources(node: &str, pods: &[PlacedPod<'_>]) -> Vec<String> {
    let Some(first) = pods.first() else {
        return Vec::new();
    };
    let has = amounts(&first.node["status"]["allocatable"]);
    let mut used: ResourceAmounts = ResourceAmounts::new();
    for one in pods {
        for (name, amount) in requests(one.pod) {
            *used.entry(name).or_default() += amount;
        }
    }
    let too_much = used
        .iter()
        .filter(|(name, amount)| **amount > has.get(*name).copied().unwrap_or(0));
    too_much
        .map(|(name, _)| format!("{node}: requests of {name} exceed allocatable"))
        .collect()
}

fn conflicting_ports(node: &str, pods: &[PlacedPod<'_>]) -> Vec<String> {
    let mut taken: HashMap<(&str, i64), Vec<(&str, &Value)>> = HashMap::new();
    let mut found = Vec::new();
    for one in pods {
        for (address, protocol, port) in host_ports(one.pod) {
            let others = taken.entry((protocol, port)).or_default();
            for (other_address, other) in others.iter() {
                let is_all = |address: &str| address.is_empty() || address == "0.0.0.0";
                let is_same = address == *other_address || is_all(address) || is_all(other_address);
                if is_same && !std::ptr::eq(*other, one.pod) {
                    let (other, pod) = (full_name(other), full_name(one.pod));
                    found.push(format!(
                        "{node}: {other} and {pod} use the same host port {port}"
                    ));
                }
            }
            others.push((address, one.pod));
        }
    }
    found
}

/// Host ports of containers and sidecars: address, protocol, port.
fn host_ports(pod: &Value) -> Vec<(&str, &str, i64)> {
    let init_containers = list(&pod["spec"]["initContainers"]).iter();
    let sidecars = init_containers.filter(|container| container["restartPolicy"] == "Always");
    let mut ports = Vec::new();
    for container in list(&pod["spec"]["containers"]).iter().chain(sidecars) {
        for port in list(&container["ports"]) {
            let number = port["hostPort"].as_i64().unwrap_or(0);
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            if number > 0 {
                ports.push((text(&port["hostIP"]), protocol, number));
            }
        }
    }
    ports
}

impl std::fmt::Display for PlacedPod<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", full_name(self.pod), name(self.node))
    }
}

fn full_name(pod: &Value) -> String {
    format!("{}/{}", text(&pod["metadata"]["namespace"]), name(pod))
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

fn label<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object["metadata"]["labels"][key].as_str()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
