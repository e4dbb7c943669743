//! Tests of the controllers of `rhumb up` and `rhumb controllers`, with a client over TLS.

#[path = "../exposition/mod.rs"]
mod exposition;
#[path = "../kube_rs/make.rs"]
#[allow(dead_code)]
mod make;
#[path = "../../../../examples/network-policy-plugin.rs"]
#[allow(dead_code)]
mod network_policy_plugin;
#[path = "../program/mod.rs"]
mod program;
#[path = "../kube_rs/support.rs"]
#[allow(dead_code)]
mod support;

mod accounts;
mod event_ttl;
mod garbage;
mod namespaces;
mod network_policies;
mod nodes;
mod pods;
mod separate_process;
mod status_writers;
mod storage;
mod waiting;
