//! Reading the model from JSON. What is not named here is skipped.

mod affinity;
mod budget;
mod group;
mod node;
mod parts;
mod pod;
