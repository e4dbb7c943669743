//! OpenAPI v2 and v3 documents, generated from the kind declarations and the schema table.
//!
//! Entry point: [`OpenApiBuilder`]. Nothing is cached here: a document is generated on request. The v3 index and its
//! hashes, which clients request often, are cheap.
//!
//! Differences from kube-apiserver: no CBOR media types and no `/logs`, which the server does not support, and no
//! `x-kubernetes-unions` on a few types, which no client reads.

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
mod parameters;
mod paths;
mod rhumb_descriptions;
mod schemas;

#[cfg(test)]
mod tests;

pub use document::{CustomSchemas, OpenApiBuilder};
