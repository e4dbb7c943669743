//! Random clusters, small enough that everything meets everything.

mod dice;
mod nodes;
mod pods;
mod terms;
mod world;

pub(crate) use dice::Dice;
pub(crate) use nodes::{namespace, node};
pub(crate) use pods::{Extent, pod};
pub(crate) use world::{World, read_labels, read_node, read_pod};

pub(crate) const NAMESPACES: [&str; 5] = ["one", "two", "three", "four", "five"];

/// How often each random test is repeated with another seed. `RHUMB_SEED` runs one of them alone.
pub(crate) fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let only = std::env::var("RHUMB_SEED").ok();
    let only = only.map(|seed| seed.parse::<u64>().expect("a seed is a number"));
    match only {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    }
}
