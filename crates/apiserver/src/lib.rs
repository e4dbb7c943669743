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
pub mod http;
pub mod objects;
pub mod request;
pub mod resources;

pub use api::Api;
