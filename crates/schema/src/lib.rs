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

mod builder;
mod conform;
mod decode;
mod defaults;
mod in_form;
pub mod json;
mod keys;
mod merge;
mod model;
mod names;
mod overlay;
pub mod protobuf;
mod text;

pub use builder::{TableBuilder, TableError};
pub use conform::conform;
pub use decode::{
    DecodeError, Decoded, MAX_DEPTH, Options, Speller, check_json, decode_any, decode_json,
    decode_value, decode_yaml, read_yaml, write_yaml,
};
pub use defaults::{Defaults, Fill};
pub use in_form::InForm;
pub use merge::{PatchError, strategic_merge};
pub use model::{Embedding, Emit, Field, Items, Shape, Table, Topology, Type, TypeId};
pub use overlay::{OverlayError, overlay};

/// An object as JSON has it.
pub type Object = serde_json::Map<String, serde_json::Value>;
