//! Oracle for `PodTopologySpread`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::nodes::{has_untolerated_taint, satisfies_node_affinity};
use super::selectors::matches;
use super::{label, list, pods_on, text};
use crate::tests::random::ClusterObjects;

pub(super) fn skew_rejection(objects: &ClusterObjects, pod: &Value, node: &Value) -> Option<bool> {
    let constraints = constraints(pod, "DoNotSchedule");
    for constraint in &constraints {
        let Some(value) = label(node, key(constraint)) else {
            return Some(false);
        };
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for other in objects.nodes.values() {
            if has_all_keys(other, &constraints) && is_counted(constraint, pod, other) {
                let value =
                    label(other, key(constraint)).expect("the node has all topology labels");
                *counts.entry(value).or_default() += count(objects, constraint, pod, other);
            }
        }
        let domains_min = constraint["minDomains"].as_u64().unwrap_or(1) as usize;
        let least = match counts.values().min() {
            Some(least) if counts.len() >= domains_min => *least,
            _ => 0,
        };
        let here = counts.get(value).copied().unwrap_or(0);
        let itself = i64::from(selects(constraint, pod, pod));
        if here + itself - least > constraint["maxSkew"].as_i64().expect("maxSkew is a number") {
            return Some(true);
        }
    }
    None
}

pub(super) fn topology_spread_scores(
    objects: &ClusterObjects,
    pod: &Value,
    nodes: &[&Value],
) -> (Vec<i64>, Vec<i64>) {
    let constraints = constraints(pod, "ScheduleAnyway");
    if constraints.is_empty() {
        return (vec![0; nodes.len()], vec![0; nodes.len()]);
    }
    let rated: Vec<&Value> = nodes
        .iter()
        .copied()
        .filter(|node| has_all_keys(node, &constraints))
        .collect();
    let rate = |node: &Value| {
        if !has_all_keys(node, &constraints) {
            return 0;
        }
        let sum: f64 = constraints
            .iter()
            .map(|constraint| {
                constraint_score(objects, pod, constraint, &constraints, node, &rated)
            })
            .sum();
        sum.round() as i64
    };
    let raw: Vec<i64> = nodes.iter().map(|node| rate(node)).collect();
    let of_rated: Vec<i64> = rated.iter().map(|node| rate(node)).collect();
    let most = of_rated.iter().copied().max().unwrap_or(0);
    let least = of_rated.iter().copied().min().unwrap_or(0);
    let normal = nodes.iter().zip(&raw).map(|(node, score)| match most {
        _ if !has_all_keys(node, &constraints) => 0,
        0 => 100,
        most => 100 * (most + least - score) / most,
    });
    let normal = normal.collect();
    (raw, normal)
}

/// The number of matching pods in the node's domain, weighted by the number of domains.
fn constraint_score(
    objects: &ClusterObjects,
    pod: &Value,
    constraint: &Value,
    constraints: &[&Value],
    node: &Value,
    rated: &[&Value],
) -> f64 {
    let key = key(constraint);
    let (here, domains) = if key == "kubernetes.io/hostname" {
        (count(objects, constraint, pod, node), rated.len())
    } else {
        let mut here = 0;
        for other in objects.nodes.values() {
            let is_near = label(other, key) == label(node, key);
            if is_near && has_all_keys(other, constraints) && is_counted(constraint, pod, other) {
                here += count(objects, constraint, pod, other);
            }
        }
        let values: BTreeSet<_> = rated.iter().map(|node| label(node, key)).collect();
        (here, values.len())
    };
    let skew = constraint["maxSkew"].as_i64().expect("maxSkew is a number");
    here as f64 * ((domains + 2) as f64).ln() + (skew - 1) as f64
}

fn constraints<'v>(pod: &'v Value, when: &str) -> Vec<&'v Value> {
    let all = list(&pod["spec"]["topologySpreadConstraints"]).iter();
    all.filter(|constraint| constraint["whenUnsatisfiable"] == when)
        .collect()
}

fn key(constraint: &Value) -> &str {
    text(&constraint["topologyKey"])
}

fn has_all_keys(node: &Value, constraints: &[&Value]) -> bool {
    let mut constraints = constraints.iter();
    constraints.all(|constraint| label(node, key(constraint)).is_some())
}

fn is_counted(constraint: &Value, pod: &Value, node: &Value) -> bool {
    let honors_affinity = constraint["nodeAffinityPolicy"] != "Ignore";
    let honors_taints = constraint["nodeTaintsPolicy"] == "Honor";
    !(honors_affinity && !satisfies_node_affinity(pod, node)
        || honors_taints && has_untolerated_taint(pod, node))
}

/// Matching pods on a node. As upstream, a selector that selects everything counts none.
fn count(objects: &ClusterObjects, constraint: &Value, pod: &Value, node: &Value) -> i64 {
    if selects_all(constraint, pod) {
        return 0;
    }
    let here = pods_on(objects, node).filter(|other| {
        let other = &other["metadata"];
        other["deletionTimestamp"].is_null() && other["namespace"] == pod["metadata"]["namespace"]
    });
    here.filter(|other| selects(constraint, pod, other)).count() as i64
}

fn selects(constraint: &Value, pod: &Value, other: &Value) -> bool {
    let keys = list(&constraint["matchLabelKeys"]).iter().map(text);
    let mut keys = keys.filter(|key| label(pod, key).is_some());
    matches(&constraint["labelSelector"], &other["metadata"]["labels"])
        && keys.all(|key| label(pod, key) == label(other, key))
}

fn selects_all(constraint: &Value, pod: &Value) -> bool {
    let selector = &constraint["labelSelector"];
    let mut keys = list(&constraint["matchLabelKeys"]).iter().map(text);
    let has_pairs = selector["matchLabels"]
        .as_object()
        .is_some_and(|pairs| !pairs.is_empty());
    !selector.is_null()
        && !has_pairs
        && list(&selector["matchExpressions"]).is_empty()
        && !keys.any(|key| label(pod, key).is_some())
}
