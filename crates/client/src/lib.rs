//! What clients of an API server share, whether the server is in the same process or far away: one process leads at a
//! time ([`leader`]), what is there and what changes is followed ([`watching`]), and people are told ([`events`]).

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
pub mod leader;
mod tasks;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
mod view;
pub mod watching;

pub use error::Error;
pub use leader::Election;
pub use tasks::AbortOnDrop;
