//! The API server: serves the Kubernetes API over HTTP, as kube-apiserver does.
//!
//! `server` accepts connections and runs the filter chain, `request` parses requests, `resources` implements the verbs,
//! `admission` and `quota` decide about writes, and `start` assembles everything from the command line.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod admission;
pub mod audit;
pub mod discovery;
pub mod http;
pub mod metrics;
pub mod objects;
pub mod openapi;
pub mod quota;
pub mod registry;
pub mod request;
pub mod resources;
pub mod server;
mod server_state;
pub mod start;
#[cfg(test)]
mod testing;

pub use registry::Registry;
pub use server_state::ServerState;
