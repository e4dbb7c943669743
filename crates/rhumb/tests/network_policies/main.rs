//! Network policies with real packets: nodes and pods are network namespaces, each node has the built `rhumb agent`, and
//! TCP, UDP and SCTP of both families show who can reach whom. Needs root, `ip` and `nft`.

#[path = "../kube_rs/make.rs"]
#[allow(dead_code)]
mod make;
#[path = "../program/mod.rs"]
#[allow(dead_code)]
mod program;

// The setting.
mod agent;
mod association;
mod cluster;
mod knocking;
mod matrix;
mod network;
mod objects;
mod probe;
mod sctp;
mod setting;
mod site;
mod talk;
mod wiring;

// The tests.
mod always;
mod bare;
mod identity;
mod link;
mod packets;
mod programmed;
mod repair;
mod restart;
mod rows;
mod services;
mod table;
mod traffic;
