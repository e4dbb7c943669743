//! From a connection to an answer.

mod authenticate;
mod connections;
mod health;
mod inflight;
mod pipeline;
mod route;
mod version;

pub use connections::{ConnectionLimits, Server};
pub use pipeline::{Peer, Service};
