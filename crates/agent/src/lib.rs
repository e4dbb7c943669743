//! Sees to network policies on one node, by nftables: what the API server shows of pods, namespaces and policies becomes
//! rules of the kernel for the pods of the node, transaction by transaction ([`run`]). The kernel is told over
//! netlink ([`nft`], [`netlink`]).

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

pub use error::Error;
pub use run::{Agent, INSPECT_EVERY, Options, clean_up, forget};
