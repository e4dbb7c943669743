//! An independent, naive implementation of all plugins on JSON objects: nested loops, no caches, and no code shared
//! with the scheduler.

mod affinity;
mod images;
mod nodes;
mod resources;
mod selectors;
mod spread;

use serde_json::Value;

use super::random::ClusterObjects;

/// The plugin that rejects a node, and whether preemption may help.
pub(super) type OracleRejection = (&'static str, bool);

/// A plugin's scores of the nodes, before and after normalization to 0..=100.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scores {
    pub(super) plugin: &'static str,
    pub(super) raw: Vec<i64>,
    pub(super) normal: Vec<i64>,
}

type FilterFn = fn(&ClusterObjects, &Value, &Value) -> Option<bool>;
type ScoreFn = fn(&ClusterObjects, &Value, &[&Value]) -> (Vec<i64>, Vec<i64>);

/// In execution order.
const FILTERS: &[(&str, FilterFn)] = &[
    ("NodeUnschedulable", nodes::unschedulable_rejection),
    ("TaintToleration", nodes::taint_rejection),
    ("NodeAffinity", nodes::node_affinity_rejection),
    ("NodePorts", nodes::port_rejection),
    ("NodeResourcesFit", resources::fit_rejection),
    ("PodTopologySpread", spread::skew_rejection),
    ("InterPodAffinity", affinity::refuses),
];

const RATES: &[(&str, ScoreFn)] = &[
    ("TaintToleration", nodes::taint_scores),
    ("NodeAffinity", nodes::node_affinity_scores),
    ("NodeResourcesFit", resources::least_allocated_scores),
    ("PodTopologySpread", spread::topology_spread_scores),
    ("InterPodAffinity", affinity::rates),
    (
        "NodeResourcesBalancedAllocation",
        resources::balanced_allocation_scores,
    ),
    ("ImageLocality", images::image_locality_scores),
];

/// All plugins that reject a node.
pub(super) fn refusals(
    objects: &ClusterObjects,
    pod: &Value,
    node: &Value,
) -> Vec<OracleRejection> {
    let rejection = |(plugin, refuses): &(&'static str, FilterFn)| {
        Some((*plugin, refuses(objects, pod, node)?))
    };
    FILTERS.iter().filter_map(rejection).collect()
}

/// The scores of the feasible nodes by all plugins.
pub(super) fn scores(objects: &ClusterObjects, pod: &Value, nodes: &[&Value]) -> Vec<Scores> {
    let rate = |(plugin, rates): &(&'static str, ScoreFn)| {
        let (raw, normal) = rates(objects, pod, nodes);
        Scores {
            plugin,
            raw,
            normal,
        }
    };
    RATES.iter().map(rate).collect()
}

/// Running pods on existing nodes, with their node.
fn placed(objects: &ClusterObjects) -> impl Iterator<Item = (&Value, &Value)> {
    let alive = objects.pods.values().filter(|pod| {
        let phase = pod["status"]["phase"].as_str();
        phase != Some("Succeeded") && phase != Some("Failed")
    });
    alive.filter_map(|pod| {
        let name = pod["spec"]["nodeName"].as_str()?;
        Some((pod, objects.nodes.get(name)?))
    })
}

fn pods_on<'w>(objects: &'w ClusterObjects, node: &'w Value) -> impl Iterator<Item = &'w Value> {
    let name = node["metadata"]["name"].as_str();
    placed(objects)
        .filter(move |(_, node_of_other)| node_of_other["metadata"]["name"].as_str() == name)
        .map(|(pod, _)| pod)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn label<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object["metadata"]["labels"][key].as_str()
}
