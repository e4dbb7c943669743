//! The kinds of objects: what they are called, what they hold, what is right and what is wrong with them.
//!
//! A kind is one declaration ([`Kind`]), in one file below `kinds/`. What the schema table can say it says;
//! only what it cannot is code here. Everything is pure: no I/O, no waiting, time is an argument.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod addresses;
pub mod checks;
pub mod conditions;
pub mod defaults;
mod edit;
pub mod fields;
pub mod gates;
pub mod kind;
pub mod kinds;
pub mod metadata;
pub mod network_policies;
pub mod outline;
pub mod partial;
pub mod pods;
pub mod printers;
pub mod resource_names;
pub mod rules;
pub mod selectors;
mod small;
pub mod table;
#[cfg(test)]
mod testing;
pub mod view;
mod workloads;

pub use gates::Gates;
pub use kind::{
    Conversion, Generation, Kind, KnownFieldsOnly, Mend, NameRule, Scope, Selectable, Selected,
    Served, Subresource, SubresourceKind, Verb, Writes,
};
pub use kinds::service_allocation;
pub use outline::Outline;
pub use rules::{Request, Rules};
pub use view::View;

/// An object, or any part of one that has named fields.
pub type Object = serde_json::Map<String, serde_json::Value>;
