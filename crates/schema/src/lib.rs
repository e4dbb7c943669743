//! The schema table: what every field of every kind is, and everything that follows from that alone.
//!
//! Built-in kinds come from a table of facts that is checked in (`cargo xtask schema` makes it anew); a custom
//! resource brings a [`Table`] of its own. Both take the same path through decoding, pruning, defaulting and
//! merging. Nothing here knows a single kind by name.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod model;

pub use model::{Emit, Field, Items, Shape, Table, Topology, Type, TypeId};
