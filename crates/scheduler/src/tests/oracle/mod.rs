//! What is possible and what is better, straight from the objects as JSON has them: nested loops, no caches, and
//! nothing shared with what it checks.

mod affinity;
mod images;
mod nodes;
mod resources;
mod selectors;
mod spread;

use serde_json::Value;

use super::random::World;

/// A plugin that has something against a node, and whether it would help if other pods went.
pub(super) type Refusal = (&'static str, bool);

/// What a plugin gives each node, before and after it is brought to 0 to 100.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scores {
    pub(super) plugin: &'static str,
    pub(super) raw: Vec<i64>,
    pub(super) normal: Vec<i64>,
}

type Refuses = fn(&World, &Value, &Value) -> Option<bool>;
type Rates = fn(&World, &Value, &[&Value]) -> (Vec<i64>, Vec<i64>);

/// In the order in which plugins are asked.
const REFUSES: &[(&str, Refuses)] = &[
    ("NodeUnschedulable", nodes::unschedulable),
    ("TaintToleration", nodes::tainted),
    ("NodeAffinity", nodes::unwanted),
    ("NodePorts", nodes::ports_taken),
    ("NodeResourcesFit", resources::insufficient),
    ("PodTopologySpread", spread::uneven),
    ("InterPodAffinity", affinity::refuses),
];

const RATES: &[(&str, Rates)] = &[
    ("TaintToleration", nodes::rate_taints),
    ("NodeAffinity", nodes::rate_affinity),
    ("NodeResourcesFit", resources::rate_least),
    ("PodTopologySpread", spread::rates),
    ("InterPodAffinity", affinity::rates),
    ("NodeResourcesBalancedAllocation", resources::rate_balance),
    ("ImageLocality", images::rates),
];

/// Everything that is against a node.
pub(super) fn refusals(world: &World, pod: &Value, node: &Value) -> Vec<Refusal> {
    let refusal =
        |(plugin, refuses): &(&'static str, Refuses)| Some((*plugin, refuses(world, pod, node)?));
    REFUSES.iter().filter_map(refusal).collect()
}

/// What all plugins give the nodes that are possible.
pub(super) fn scores(world: &World, pod: &Value, nodes: &[&Value]) -> Vec<Scores> {
    let rate = |(plugin, rates): &(&'static str, Rates)| {
        let (raw, normal) = rates(world, pod, nodes);
        Scores {
            plugin,
            raw,
            normal,
        }
    };
    RATES.iter().map(rate).collect()
}

/// Pods that are on a node that exists, with that node.
fn placed(world: &World) -> impl Iterator<Item = (&Value, &Value)> {
    let alive = world.pods.values().filter(|pod| {
        let phase = pod["status"]["phase"].as_str();
        phase != Some("Succeeded") && phase != Some("Failed")
    });
    alive.filter_map(|pod| {
        let name = pod["spec"]["nodeName"].as_str()?;
        Some((pod, world.nodes.get(name)?))
    })
}

fn pods_on<'w>(world: &'w World, node: &'w Value) -> impl Iterator<Item = &'w Value> {
    let name = node["metadata"]["name"].as_str();
    placed(world)
        .filter(move |(_, place)| place["metadata"]["name"].as_str() == name)
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
