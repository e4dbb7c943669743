//! The HTTPS server: connections, TLS, and the handler chain from authentication to routing (upstream:
//! `k8s.io/apiserver/pkg/server`, `DefaultBuildHandlerChain`). Entry point: [`HttpsServer::run`].

mod authenticate;
mod connections;
mod handler_chain;
mod health;
mod idle_timeout;
mod max_in_flight;
mod request_observer;
mod reusable_timer;
mod route;
mod sub_waker;
mod version;
mod websocket;

pub use connections::{ConnectionLimits, HttpsServer};
pub use handler_chain::{ConnectionPeer, HttpService};
pub use max_in_flight::{InFlightLimits, InFlightPermit, READS_MAX, WRITES_MAX};
pub use reusable_timer::ReusableTimer;
