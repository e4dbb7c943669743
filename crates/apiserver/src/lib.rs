//! The Kubernetes API over HTTP.

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
mod api;
pub mod audit;
pub mod discovery;
pub mod http;
pub mod metrics;
pub mod objects;
pub mod openapi;
pub mod quota;
pub mod request;
pub mod resources;
pub mod server;
pub mod start;
#[cfg(test)]
mod testing;

pub use api::Api;
