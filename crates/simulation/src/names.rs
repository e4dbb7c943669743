//! Names of labels and annotations of simulated nodes and their pods.

/// Common prefix of all names.
pub const PREFIX: &str = "simulation.rhumb/";

/// Label of every simulated node. Nodes without it are never changed.
pub const SIMULATED: &str = "simulation.rhumb/simulated";

/// Annotation of a node template: number of nodes to create from it.
pub const COUNT: &str = "simulation.rhumb/count";
