//! The endpoint handlers: verbs, discovery and OpenAPI (upstream: `k8s.io/apiserver/pkg/endpoints`).
//!
//! `request/` parses requests, `http/` negotiates, encodes and compresses responses, `resources/` has one file per verb,
//! and [`ServerState`] is what all of them share. Nothing here accepts connections or authenticates.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod audit_body;
pub mod discovery;
pub mod http;
mod metrics_source;
pub mod openapi;
pub mod request;
pub mod resources;
mod server_state;

pub use metrics_source::MetricsSource;
pub use server_state::ServerState;
