//! The scheduler: assigns pending pods to nodes, as kube-scheduler does. [`run`] is the entry point.
//!
//! The core is synchronous, does no I/O and runs on one thread. [`engine`] applies watch events to [`cluster`] (all
//! pods, nodes and namespaces, with counts that are updated on every change), takes pods from [`queue`] and schedules
//! them one by one: [`cycle`] runs the filter and score [`plugins`], [`preemption`] selects victims. Events are applied
//! between two scheduling cycles and never during one, so every cycle works on a consistent snapshot without a copy.

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
