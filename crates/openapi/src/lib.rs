//! OpenAPI documents, made from the declarations of kinds and the schema table.
//!
//! Nothing is kept: a document is made when it is asked for, piece by piece, and belongs to the caller. What is
//! asked for often, the index and the hashes in it, costs next to nothing.
//!
//! Left out of what kube-apiserver writes: CBOR, which the server does not speak, `/logs`, which it does not
//! serve, and the `x-kubernetes-unions` of a few types, which no client reads.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod descriptions;
mod document;
mod fingerprint;
mod gnostic;
mod names;
mod operation;
mod ours;
mod parameters;
mod paths;
mod schemas;

#[cfg(test)]
mod tests;

pub use document::{CustomSchemas, OpenApi};
