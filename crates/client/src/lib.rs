//! What the API clients of rhumb share (controllers, scheduler, agent): leader election ([`leader`]), list and watch
//! with retries ([`reflector`], [`informer`]), a rate-limited queue of keys ([`work_queue`]), recording events
//! ([`events`]) and typed partial objects (the `view!` macro). Corresponds to parts of client-go.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod error;
pub mod events;
pub mod informer;
pub mod leader;
pub mod reflector;
mod tasks;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
mod view;
pub mod work_queue;

pub use error::Error;
pub use leader::LeaderElectionConfig;
pub use tasks::AbortOnDrop;
