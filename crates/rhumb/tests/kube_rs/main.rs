//! Tests of the built program with kube-rs over TLS.

#[path = "../program/mod.rs"]
mod program;

mod access;
mod critical_resources;
mod critical_webhook_policy;
mod cross_namespace_affinity;
mod durability;
mod examples;
mod exclusion_rules;
mod exclusion_rules_of_policies;
mod make;
mod namespace_label;
mod network_policies;
mod network_policy_nodes;
mod objects;
mod patches;
mod reading;
mod request_cost;
mod requests;
mod subresources;
mod support;
mod watching;
