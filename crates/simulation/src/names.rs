//! Labels and annotations by which simulated nodes are known and told what to do.

/// What all of them begin with.
pub const PREFIX: &str = "simulation.rhumb/";

/// The label of every simulated node. Nodes without it are never touched.
pub const SIMULATED: &str = "simulation.rhumb/simulated";

/// In a template: how many nodes are made of it.
pub const COUNT: &str = "simulation.rhumb/count";
