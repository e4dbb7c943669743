//! Assembles and starts the API server (upstream: `cmd/kube-apiserver/app`): opens the store, builds the registry, the
//! admission plugins and the handlers, creates bootstrap objects and runs the tasks of the server itself.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod start;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use start::*;
