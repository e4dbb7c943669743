//! Simulated nodes: they register, keep their leases, give pods addresses, and let them run, end and stop as the pods'
//! annotations say. Nothing is executed.
//!
//! They are clients of the API server and nothing more. One task looks after all of them, with one watch on nodes, one
//! on pods, and one queue of timers. What comes next for a pod follows from its object alone (`pods::life`), so that a
//! process that is started in the middle goes on where another one was.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod access;
mod engine;
mod fleet;
pub mod names;
mod nodes;
mod pods;
mod requests;
mod script;
mod template;
mod timers;
mod wire;

pub use access::{ACCOUNT, grant};
pub use engine::run;
pub use fleet::{Fleet, NODES_MAX};
