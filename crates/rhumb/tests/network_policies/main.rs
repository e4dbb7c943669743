//! Network policies with real packets: nodes and pods are network namespaces, each node runs the built `rhumb agent`,
//! and TCP, UDP and SCTP of both families show the reachability. Needs root, `ip` and `nft`.

#[path = "../kube_rs/make.rs"]
#[allow(dead_code)]
mod make;
#[path = "../program/mod.rs"]
#[allow(dead_code)]
mod program;

// Infrastructure.
mod agent;
mod cluster;
mod denied_traffic;
mod long_lived_connection;
mod matrix;
mod network;
mod network_namespace;
mod objects;
mod pod_links;
mod prerequisites;
mod probe;
mod sctp;
mod sctp_endpoint;

// Tests.
mod always_allowed;
mod established_connections;
mod identity;
mod link;
mod packets;
mod policy_rows;
mod policy_table;
mod programmed;
mod repair;
mod restart;
mod services;
mod without_agent;
