//! Oracles for `NodeUnschedulable`, `TaintToleration`, `NodeAffinity` and `NodePorts`.

use serde_json::{Value, json};

use super::selectors::{expression_matches, matches};
use super::{list, pods_on, text};
use crate::tests::random::ClusterObjects;

pub(super) fn unschedulable_rejection(
    _: &ClusterObjects,
    pod: &Value,
    node: &Value,
) -> Option<bool> {
    let taint = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    let is_refused = node["spec"]["unschedulable"] == true && !tolerates(pod, &taint);
    is_refused.then_some(false)
}

pub(super) fn taint_rejection(_: &ClusterObjects, pod: &Value, node: &Value) -> Option<bool> {
    has_untolerated_taint(pod, node).then_some(false)
}

/// Whether the node has an untolerated `NoSchedule` or `NoExecute` taint.
pub(super) fn has_untolerated_taint(pod: &Value, node: &Value) -> bool {
    let taints = list(&node["spec"]["taints"]).iter();
    let mut hard = taints.filter(|taint| taint["effect"] != "PreferNoSchedule");
    hard.any(|taint| !tolerates(pod, taint))
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    let tolerations = list(&pod["spec"]["tolerations"]);
    tolerations.iter().any(|toleration| {
        let is_about = |field: &str| {
            let wanted = text(&toleration[field]);
            wanted.is_empty() || wanted == text(&taint[field])
        };
        let (value, wanted) = (text(&taint["value"]), text(&toleration["value"]));
        let numbers = value.parse::<i64>().ok().zip(wanted.parse::<i64>().ok());
        is_about("effect")
            && is_about("key")
            && match text(&toleration["operator"]) {
                "" | "Equal" => value == wanted,
                "Exists" => true,
                "Lt" => numbers.is_some_and(|(value, wanted)| value < wanted),
                "Gt" => numbers.is_some_and(|(value, wanted)| value > wanted),
                other => panic!("unknown operator {other}"),
            }
    })
}

/// The score falls with the number of untolerated `PreferNoSchedule` taints.
pub(super) fn taint_scores(
    _: &ClusterObjects,
    pod: &Value,
    nodes: &[&Value],
) -> (Vec<i64>, Vec<i64>) {
    let rate = |node: &&Value| {
        let taints = list(&node["spec"]["taints"]).iter();
        let soft = taints.filter(|taint| taint["effect"] == "PreferNoSchedule");
        soft.filter(|taint| !tolerates(pod, taint)).count() as i64
    };
    let raw: Vec<i64> = nodes.iter().map(rate).collect();
    let most = raw.iter().copied().max().unwrap_or(0);
    let normal = raw.iter().map(|count| match most {
        0 => 100,
        most => 100 - 100 * count / most,
    });
    let normal = normal.collect();
    (raw, normal)
}

pub(super) fn node_affinity_rejection(
    _: &ClusterObjects,
    pod: &Value,
    node: &Value,
) -> Option<bool> {
    (!satisfies_node_affinity(pod, node)).then_some(false)
}

/// Whether the pod's selector and required affinity allow the node.
pub(super) fn satisfies_node_affinity(pod: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let pairs = json!({"matchLabels": pod["spec"]["nodeSelector"]});
    let required =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let mut terms = list(&required["nodeSelectorTerms"]).iter();
    matches(&pairs, labels) && (required.is_null() || terms.any(|term| term_matches(term, node)))
}

/// An empty term matches nothing.
fn term_matches(term: &Value, node: &Value) -> bool {
    let expressions = list(&term["matchExpressions"]);
    let fields = list(&term["matchFields"]);
    let as_labels = json!({"metadata.name": node["metadata"]["name"]});
    let labels = &node["metadata"]["labels"];
    !(expressions.is_empty() && fields.is_empty())
        && expressions
            .iter()
            .all(|wanted| expression_matches(wanted, labels))
        && fields
            .iter()
            .all(|wanted| expression_matches(wanted, &as_labels))
}

pub(super) fn node_affinity_scores(
    _: &ClusterObjects,
    pod: &Value,
    nodes: &[&Value],
) -> (Vec<i64>, Vec<i64>) {
    let preferred =
        &pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    let rate = |node: &&Value| {
        let mut sum = 0;
        for preferred in list(preferred) {
            if term_matches(&preferred["preference"], node) {
                sum += preferred["weight"].as_i64().expect("weight is a number");
            }
        }
        sum
    };
    let raw: Vec<i64> = nodes.iter().map(rate).collect();
    let best = raw.iter().copied().max().unwrap_or(0);
    let normal = raw.iter().map(|score| match best {
        0 => 0,
        best => 100 * score / best,
    });
    let normal = normal.collect();
    (raw, normal)
}

pub(super) fn port_rejection(objects: &ClusterObjects, pod: &Value, node: &Value) -> Option<bool> {
    for wanted in host_ports(pod) {
        for other in pods_on(objects, node) {
            for taken in host_ports(other) {
                let all = "0.0.0.0";
                let is_same_address = wanted.0 == taken.0 || wanted.0 == all || taken.0 == all;
                if is_same_address && wanted.1 == taken.1 && wanted.2 == taken.2 {
                    return Some(true);
                }
            }
        }
    }
    None
}

/// Address, protocol and port of all containers and sidecars.
fn host_ports(pod: &Value) -> Vec<(&str, &str, i64)> {
    let sidecars = list(&pod["spec"]["initContainers"]).iter();
    let sidecars = sidecars.filter(|container| container["restartPolicy"] == "Always");
    let mut ports = Vec::new();
    for container in list(&pod["spec"]["containers"]).iter().chain(sidecars) {
        for port in list(&container["ports"]) {
            let number = port["hostPort"].as_i64().unwrap_or(0);
            if number > 0 {
                let address = text_or(&port["hostIP"], "0.0.0.0");
                ports.push((address, text_or(&port["protocol"], "TCP"), number));
            }
        }
    }
    ports
}

fn text_or<'v>(value: &'v Value, default: &'static str) -> &'v str {
    match text(value) {
        "" => default,
        text => text,
    }
}
