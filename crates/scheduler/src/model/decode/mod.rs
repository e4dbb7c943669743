//! Decodes the model from JSON. `Wire*` structs declare the fields that are used; all others are skipped.

mod affinity;
mod common;
mod disruption_budget;
mod node;
mod pod;
mod spread_owner;
