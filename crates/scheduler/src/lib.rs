//! Which node a pod goes to.
//!
//! The core is pure and runs on one thread. [`cluster`] knows all pods, nodes and namespaces and keeps every count that
//! a decision needs up to date as they change; [`plugins`] ask it; [`cycle`] decides for one pod. Changes are let in
//! between two decisions and never during one, so that whatever a decision looks at is of one moment.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod cluster;
pub mod config;
pub mod cycle;
pub mod engine;
pub mod explain;
pub mod metrics;
pub mod model;
pub mod plugins;
pub mod preemption;
pub mod queue;
pub mod run;

#[cfg(test)]
mod tests;
