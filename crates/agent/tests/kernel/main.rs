//! Tests against the real kernel, in network namespaces of their own. They require root, iproute2 and nft.

mod agent_harness;
mod agent_runs;
mod foreign_changes;
mod network_namespace;
mod packet_lab;
mod packets;
mod random_histories;
mod ruleset_loading;
mod test_rulesets;

// Random histories, shared with the engine's differential tests.
#[path = "../../../netpol/tests/oracle/event_script.rs"]
#[allow(dead_code)]
mod event_script;
#[path = "../../../netpol/tests/oracle/generator/mod.rs"]
#[allow(dead_code)]
mod generator;
