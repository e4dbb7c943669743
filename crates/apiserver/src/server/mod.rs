//! From a connection to an answer.

mod authenticate;
mod connections;
mod health;
mod idle;
mod inflight;
mod pipeline;
mod route;
mod seldom;
mod timer;
mod tls;
mod trace;
mod version;
mod websocket;

pub use connections::{ConnectionLimits, Server};
pub(crate) use idle::Activity;
pub use inflight::{InFlight, Place, READS_MAX, WRITES_MAX};
pub use pipeline::{Peer, Service};
pub use timer::SpareTimer;
