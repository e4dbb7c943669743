//! From a connection to an answer.

mod authenticate;
mod connections;
mod health;
mod inflight;
mod pipeline;
mod route;
mod trace;
mod version;
mod websocket;

pub use connections::{ConnectionLimits, Server};
pub use inflight::InFlight;
pub use pipeline::{Peer, Service};
