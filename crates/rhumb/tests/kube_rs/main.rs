//! rhumb as programs use it: kube-rs, over TLS, against the built binary.

#[path = "../program/mod.rs"]
mod program;

mod access;
mod critical_resources;
mod cross_namespace_affinity;
mod durability;
mod examples;
mod exclusion_rules;
mod linear;
mod make;
mod namespace_label;
mod network_policies;
mod network_policy_nodes;
mod objects;
mod patches;
mod reading;
mod requests;
mod subresources;
mod support;
mod watching;
