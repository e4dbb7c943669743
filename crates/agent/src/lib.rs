//! The network policy agent: enforces NetworkPolicy objects on one node with nftables.
//!
//! Entry point: [`NetworkPolicyAgent`]. It watches pods, namespaces and policies ([`run`]), computes the node's ruleset
//! with `rhumb_netpol`, and writes it to the kernel in transactions ([`nft`]) over netlink ([`netlink`]).

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod error;
pub mod metrics;
mod netlink;
pub mod nft;
mod probe;
mod run;

pub use error::AgentError;
pub use run::{
    AgentOptions, DEFAULT_INSPECTION_INTERVAL, NetworkPolicyAgent, delete_node_report, remove_rules,
};
