//! The semantics of NetworkPolicy, one aspect per test.
//!
//! Each verdict is checked with an engine of cluster scope and with the ruleset of each node.

mod addresses;
mod cluster;
mod isolation;
mod namespaces;
mod nodes;
mod objects;
mod peers;
mod pods;
mod ports;
mod reasons;
mod summaries;
mod versions;
