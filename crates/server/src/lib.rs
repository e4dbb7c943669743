//! The HTTPS server: connections, TLS, and the handler chain from authentication to routing (upstream:
//! `k8s.io/apiserver/pkg/server`, `DefaultBuildHandlerChain`). Entry point: [`HttpsServer::run`].

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod audit;
mod authenticate;
mod connections;
mod handler_chain;
mod health;
mod host_header;
mod idle_timeout;
mod max_in_flight;
pub mod metrics;
mod request_observer;
mod reusable_timer;
mod route;
mod sub_waker;
#[cfg(test)]
mod testing;
mod version;
mod websocket;

pub use connections::{ConnectionLimits, HttpsServer};
pub use handler_chain::{ConnectionPeer, HttpService};
pub use max_in_flight::{InFlightLimits, READS_MAX, WRITES_MAX};
pub use reusable_timer::ReusableTimer;
