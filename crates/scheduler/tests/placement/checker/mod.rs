//! Proves of a cluster, from its objects alone, that every pod is where it may be. It knows nothing of how they came
//! there, so it checks what holds in whatever order they came.

mod amounts;
mod selectors;
mod terms;

use std::collections::{BTreeMap, HashMap};

use amounts::{Amounts, amounts, requests};
use selectors::{is_wanted, tolerates_all};
use serde_json::Value;

pub(crate) use terms::unattracted;

/// As lists of the server have them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Objects<'a> {
    pub(crate) nodes: &'a [Value],
    pub(crate) namespaces: &'a [Value],
    pub(crate) pods: &'a [Value],
}

/// A pod that is on a node and has not come to its end.
#[derive(Debug, Clone, Copy)]
struct Placed<'a> {
    pod: &'a Value,
    node: &'a Value,
}

/// Everything that is wrong, in words.
pub(crate) fn violations(objects: &Objects<'_>) -> Vec<String> {
    let (placed, mut found) = placed(objects);
    for one in &placed {
        if !is_wanted(one.pod, one.node) {
            found.push(format!(
                "{one}: its node selector or affinity is about other nodes"
            ));
        }
        if !tolerates_all(one.pod, one.node) {
            found.push(format!("{one}: a taint is not tolerated"));
        }
    }
    let mut by_node: BTreeMap<&str, Vec<Placed<'_>>> = BTreeMap::new();
    for one in &placed {
        by_node.entry(name(one.node)).or_default().push(*one);
    }
    for (node, pods) in &by_node {
        found.extend(overused(node, pods));
        found.extend(conflicting_ports(node, pods));
    }
    found.extend(terms::repelled(objects, &placed));
    found
}

/// Pods that were seen on more than one node, or taken off one, in the events of a watch in their order.
pub(crate) fn rebound(events: &[Value]) -> Vec<String> {
    let mut known: HashMap<&str, &str> = HashMap::new();
    let mut found = Vec::new();
    for event in events {
        let pod = &event["object"];
        let (uid, node) = (
            text(&pod["metadata"]["uid"]),
            text(&pod["spec"]["nodeName"]),
        );
        match known.get(uid) {
            Some(before) if *before != node => {
                let then = if node.is_empty() {
                    "nowhere".to_owned()
                } else {
                    format!("on {node}")
                };
                found.push(format!(
                    "{} was on {before} and then {then}",
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

/// Pods with their nodes, and those whose node is not there.
fn placed<'a>(objects: &Objects<'a>) -> (Vec<Placed<'a>>, Vec<String>) {
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
            Some(node) => placed.push(Placed { pod, node }),
            None => found.push(format!("{} is on {node}, which is no node", full_name(pod))),
        }
    }
    (placed, found)
}

fn overused(node: &str, pods: &[Placed<'_>]) -> Vec<String> {
    let Some(first) = pods.first() else {
        return Vec::new();
    };
    let has = amounts(&first.node["status"]["allocatable"]);
    let mut used: Amounts = Amounts::new();
    for one in pods {
        for (name, amount) in requests(one.pod) {
            *used.entry(name).or_default() += amount;
        }
    }
    let too_much = used
        .iter()
        .filter(|(name, amount)| **amount > has.get(*name).copied().unwrap_or(0));
    too_much
        .map(|(name, _)| format!("{node}: more {name} is used than it has"))
        .collect()
}

fn conflicting_ports(node: &str, pods: &[Placed<'_>]) -> Vec<String> {
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
                        "{node}: {other} and {pod} take the same port {port}"
                    ));
                }
            }
            others.push((address, one.pod));
        }
    }
    found
}

/// Of all containers that run as long as the pod.
fn host_ports(pod: &Value) -> Vec<(&str, &str, i64)> {
    let before = list(&pod["spec"]["initContainers"]).iter();
    let sidecars = before.filter(|container| container["restartPolicy"] == "Always");
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

impl std::fmt::Display for Placed<'_> {
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
