//! Simulated nodes (as kwok or kubemark hollow nodes): they register, renew their leases, and drive the status of their
//! pods according to the pods' annotations. No container is executed.
//!
//! Entry point: [`run`]. The simulation is only a client of the API server. One task manages all nodes, with one watch
//! on nodes, one on pods, and one queue of timers. The next transition of a pod follows from its object alone
//! (`pods`), so a restarted process continues where the previous one stopped.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod api_client;
mod delay_queue;
mod engine;
pub mod names;
mod node_objects;
mod node_pools;
mod node_template;
mod partial_objects;
mod pod_behavior;
mod pods;
mod rbac;

pub use engine::run;
pub use node_pools::{NODES_MAX, NodePools};
pub use rbac::{SERVICE_ACCOUNT, grant};
