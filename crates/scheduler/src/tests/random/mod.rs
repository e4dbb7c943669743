//! Random clusters, small enough that pods, nodes and terms interact often.

mod cluster_objects;
mod json_choices;
mod nodes;
mod pods;
mod terms;

pub(crate) use cluster_objects::{ClusterObjects, read_labels, read_node, read_pod};
pub(crate) use json_choices::JsonChoices;
pub(crate) use nodes::{namespace, node};
pub(crate) use pods::{PodFeatures, pod};
pub(crate) use rhumb_seeded_rng::SeededRng;

pub(crate) const NAMESPACES: [&str; 5] = ["one", "two", "three", "four", "five"];

/// The seeds of a random test: 0..count, or only `RHUMB_SEED` if set.
pub(crate) fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let only = std::env::var("RHUMB_SEED").ok();
    let only = only.map(|seed| seed.parse::<u64>().expect("RHUMB_SEED is a number"));
    match only {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    }
}
