//! The API kinds: their names and versions, defaulting, preparation, validation, table printing.
//!
//! Each kind is one [`Kind`] value declared in one file below `kinds/`; [`kinds::all`] lists them. The schema table
//! (`rhumb-schema`) describes fields and constant defaults; this crate has the logic that a schema cannot express,
//! which upstream keeps in `pkg/registry/*/strategy.go` and `pkg/apis/*/validation`. All functions are pure: no I/O,
//! no async, the time is an argument.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod checks;
pub mod conditions;
pub mod defaults;
pub mod feature_gates;
pub mod field_view;
pub mod fields;
pub mod ip_addresses;
pub mod kind;
pub mod kinds;
pub mod metadata;
pub mod network_policy_versions;
mod object_edit;
pub mod partial_decode;
pub mod pods;
pub mod printers;
pub mod resource_names;
pub mod selection_attrs;
pub mod selectors;
mod small_map;
pub mod strategy;
pub mod table;
#[cfg(test)]
mod testing;
mod validation_helpers;

pub use feature_gates::FeatureGates;
pub use field_view::FieldView;
pub use kind::{
    FieldSource, GenerationPolicy, Kind, KindVersion, NameRule, ReadFixup, ResourceScope,
    SelectableField, Subresource, SubresourceKind, UnknownFieldRejection, Verb, VersionConversion,
    WriteBehavior,
};
pub use kinds::service_allocation;
pub use selection_attrs::SelectionAttrsReader;
pub use strategy::{DroppedField, ResourceStrategy, StrategyContext};

/// A JSON object: a whole API object, or a nested object within one.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
