//! `InterPodAffinity`.

use serde_json::Value;

use super::selectors::matches;
use super::{label, list, placed, text};
use crate::tests::random::World;

const HARD_WEIGHT: i64 = 1;

/// Affinity first, which no departure helps; then anti-affinity of the pod; then that of those that are there.
pub(super) fn refuses(world: &World, pod: &Value, node: &Value) -> Option<bool> {
    if !is_attracted(world, pod, node) {
        return Some(false);
    }
    for term in required(pod, "podAntiAffinity") {
        for (other, place) in placed(world) {
            if picks(world, term, pod, other) && are_together(term, place, node) {
                return Some(true);
            }
        }
    }
    for (other, place) in placed(world) {
        for term in required(other, "podAntiAffinity") {
            if picks(world, term, other, pod) && are_together(term, place, node) {
                return Some(true);
            }
        }
    }
    None
}

fn is_attracted(world: &World, pod: &Value, node: &Value) -> bool {
    let terms = required(pod, "podAffinity");
    let pick_all = |other| terms.iter().all(|term| picks(world, term, pod, other));
    let mut all_are_near = true;
    let mut any_is_somewhere = false;
    for term in terms {
        if label(node, text(&term["topologyKey"])).is_none() {
            return false;
        }
        let mut is_near = false;
        for (other, place) in placed(world) {
            if pick_all(other) {
                is_near |= are_together(term, place, node);
                any_is_somewhere |= label(place, text(&term["topologyKey"])).is_some();
            }
        }
        all_are_near &= is_near;
    }
    all_are_near || (!any_is_somewhere && pick_all(pod))
}

/// Preferences in both directions, and what those who need the pod add.
pub(super) fn rates(world: &World, pod: &Value, nodes: &[&Value]) -> (Vec<i64>, Vec<i64>) {
    let raw: Vec<i64> = nodes.iter().map(|node| rate(world, pod, node)).collect();
    let (min, max) = (raw.iter().min(), raw.iter().max());
    let (min, max) = (min.copied().unwrap_or(0), max.copied().unwrap_or(0));
    let normal = raw.iter().map(|score| match max - min {
        0 => 0,
        span => (100.0 * ((score - min) as f64 / span as f64)) as i64,
    });
    let normal = normal.collect();
    (raw, normal)
}

fn rate(world: &World, pod: &Value, node: &Value) -> i64 {
    let mut sum = 0;
    for (other, place) in placed(world) {
        for (kind, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
            for (owner, picked) in [(pod, other), (other, pod)] {
                for preferred in preferred(owner, kind) {
                    let term = &preferred["podAffinityTerm"];
                    if picks(world, term, owner, picked) && are_together(term, place, node) {
                        sum += sign * preferred["weight"].as_i64().expect("a weight");
                    }
                }
            }
        }
        for term in required(other, "podAffinity") {
            if picks(world, term, other, pod) && are_together(term, place, node) {
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

/// Whether both nodes have the same value of the label that the term is about.
fn are_together(term: &Value, one: &Value, other: &Value) -> bool {
    let key = text(&term["topologyKey"]);
    match (label(one, key), label(other, key)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Whether a term of the owner is about a pod.
fn picks(world: &World, term: &Value, owner: &Value, pod: &Value) -> bool {
    let namespace = text(&pod["metadata"]["namespace"]);
    let own = text(&owner["metadata"]["namespace"]);
    includes(world, term, own, namespace)
        && matches(&term["labelSelector"], &pod["metadata"]["labels"])
}

/// Its own namespace only where nothing is said; else those named and those selected.
fn includes(world: &World, term: &Value, own: &str, namespace: &str) -> bool {
    let names = list(&term["namespaces"]);
    let selector = &term["namespaceSelector"];
    if names.is_empty() && selector.is_null() {
        return namespace == own;
    }
    let labels = world.namespaces.get(namespace);
    let labels = labels.map_or(&Value::Null, |known| &known["metadata"]["labels"]);
    names.iter().any(|name| name == namespace) || matches(selector, labels)
}
