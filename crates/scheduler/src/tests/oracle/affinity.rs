//! Oracle for `InterPodAffinity`.

use serde_json::Value;

use super::selectors::matches;
use super::{label, list, placed, text};
use crate::tests::random::ClusterObjects;

const HARD_WEIGHT: i64 = 1;

/// Checks the pod's affinity (preemption cannot help), its anti-affinity, then the anti-affinity of existing pods.
pub(super) fn refuses(objects: &ClusterObjects, pod: &Value, node: &Value) -> Option<bool> {
    if !satisfies_affinity(objects, pod, node) {
        return Some(false);
    }
    for term in required(pod, "podAntiAffinity") {
        for (other, node_of_other) in placed(objects) {
            if term_matches(objects, term, pod, other) && share_domain(term, node_of_other, node) {
                return Some(true);
            }
        }
    }
    for (other, node_of_other) in placed(objects) {
        for term in required(other, "podAntiAffinity") {
            if term_matches(objects, term, other, pod) && share_domain(term, node_of_other, node) {
                return Some(true);
            }
        }
    }
    None
}

fn satisfies_affinity(objects: &ClusterObjects, pod: &Value, node: &Value) -> bool {
    let terms = required(pod, "podAffinity");
    let pick_all = |other| {
        terms
            .iter()
            .all(|term| term_matches(objects, term, pod, other))
    };
    let mut all_are_near = true;
    let mut any_match_exists = false;
    for term in terms {
        if label(node, text(&term["topologyKey"])).is_none() {
            return false;
        }
        let mut is_near = false;
        for (other, node_of_other) in placed(objects) {
            if pick_all(other) {
                is_near |= share_domain(term, node_of_other, node);
                any_match_exists |= label(node_of_other, text(&term["topologyKey"])).is_some();
            }
        }
        all_are_near &= is_near;
    }
    all_are_near || (!any_match_exists && pick_all(pod))
}

/// Preferred terms in both directions, plus required affinity of existing pods that matches the pod.
pub(super) fn rates(
    objects: &ClusterObjects,
    pod: &Value,
    nodes: &[&Value],
) -> (Vec<i64>, Vec<i64>) {
    let raw: Vec<i64> = nodes.iter().map(|node| rate(objects, pod, node)).collect();
    let (min, max) = (raw.iter().min(), raw.iter().max());
    let (min, max) = (min.copied().unwrap_or(0), max.copied().unwrap_or(0));
    let normal = raw.iter().map(|score| match max - min {
        0 => 0,
        span => (100.0 * ((score - min) as f64 / span as f64)) as i64,
    });
    let normal = normal.collect();
    (raw, normal)
}

fn rate(objects: &ClusterObjects, pod: &Value, node: &Value) -> i64 {
    let mut sum = 0;
    for (other, node_of_other) in placed(objects) {
        for (kind, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
            for (owner, candidate) in [(pod, other), (other, pod)] {
                for preferred in preferred(owner, kind) {
                    let term = &preferred["podAffinityTerm"];
                    if term_matches(objects, term, owner, candidate)
                        && share_domain(term, node_of_other, node)
                    {
                        sum += sign * preferred["weight"].as_i64().expect("weight is a number");
                    }
                }
            }
        }
        for term in required(other, "podAffinity") {
            if term_matches(objects, term, other, pod) && share_domain(term, node_of_other, node) {
                sum += HARD_WEIGHT;
            }
        }
    }
    sum
}

fn required<'v>(pod: &'v Value, kind: &str) -> &'v [Value] {
    list(&pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"])
}

fn preferred<'v>(pod: &'v Value, kind: &str) -> &'v [Value] {
    list(&pod["spec"]["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"])
}

/// Whether both nodes have the same value of the term's topology label.
fn share_domain(term: &Value, one: &Value, other: &Value) -> bool {
    let key = text(&term["topologyKey"]);
    match (label(one, key), label(other, key)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Whether a term of the owner matches a pod.
fn term_matches(objects: &ClusterObjects, term: &Value, owner: &Value, pod: &Value) -> bool {
    let namespace = text(&pod["metadata"]["namespace"]);
    let own = text(&owner["metadata"]["namespace"]);
    namespace_matches(objects, term, own, namespace)
        && matches(&term["labelSelector"], &pod["metadata"]["labels"])
}

/// The owner's namespace by default; otherwise the named and the selected namespaces.
fn namespace_matches(objects: &ClusterObjects, term: &Value, own: &str, namespace: &str) -> bool {
    let names = list(&term["namespaces"]);
    let selector = &term["namespaceSelector"];
    if names.is_empty() && selector.is_null() {
        return namespace == own;
    }
    let labels = objects.namespaces.get(namespace);
    let labels = labels.map_or(&Value::Null, |known| &known["metadata"]["labels"]);
    names.iter().any(|name| name == namespace) || matches(selector, labels)
}
