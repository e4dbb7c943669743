//! [`ResourceStrategy`]: the per-kind logic of a write that the schema table cannot express.
//!
//! Corresponds to upstream's `rest.RESTCreateStrategy`, `RESTUpdateStrategy` and `RESTDeleteStrategy`; the
//! implementations are in `kinds/`.

use std::collections::BTreeMap;
use std::fmt::Debug;

use rhumb_meta::Timestamp;
use rhumb_meta::field::ErrorList;

use crate::feature_gates::Feature;
use crate::{FeatureGates, FieldView, JsonObject};

/// What a strategy may know about the request.
#[derive(Debug, Clone, Copy)]
pub struct StrategyContext<'a> {
    pub gates: &'a FeatureGates,
    pub now: Timestamp,
    /// The user name; empty for the server itself.
    pub user: &'a str,
    pub uid: &'a str,
    pub groups: &'a [String],
    pub extra: Option<&'a BTreeMap<String, Vec<String>>>,
    /// Whether the object is the result of a patch: a field that it lacks was removed, and not just omitted by a client that
    /// does not know it.
    pub is_patch: bool,
}

/// A field that is dropped because its feature gate is disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedField {
    /// `webhooks[0].excludeResourceRules`
    pub path: String,
    /// What is dropped: the field, or an object or list that contains it and would mean something else without it.
    pub dropped: String,
    pub gate: Feature,
}

/// The defaulting, preparation, validation and deletion logic of a kind. Every method defaults to a no-op.
///
/// A write runs in this order: decoding and pruning by the schema, `input_warnings`, `apply_defaults`, `prepare_*`,
/// `validate_*`, `warnings`. Metadata (names, labels, owner references, generation, timestamps) is handled before these are called,
/// for all kinds alike; so is the rule that status changes only through the status subresource.
pub trait ResourceStrategy: Debug + Send + Sync {
    /// Sets defaults that the schema table does not have.
    fn apply_defaults(&self, _object: &mut JsonObject) {}

    /// Clears fields that clients may not set and sets fields that only the server sets (`PrepareForCreate`).
    fn prepare_create(&self, _object: &mut JsonObject, _request: &StrategyContext<'_>) {}

    fn prepare_update(
        &self,
        _object: &mut JsonObject,
        _old: &JsonObject,
        _request: &StrategyContext<'_>,
    ) {
    }

    fn validate_create(
        &self,
        _object: &FieldView<'_>,
        _request: &StrategyContext<'_>,
        _errors: &mut ErrorList,
    ) {
    }

    /// Includes the checks of `validate_create`, and rejects changes of immutable fields.
    fn validate_update(
        &self,
        _object: &FieldView<'_>,
        _old: &FieldView<'_>,
        _request: &StrategyContext<'_>,
        _errors: &mut ErrorList,
    ) {
    }

    /// The paths of the fields that `prepare_create` or `prepare_update` drops because a feature gate is disabled, to
    /// warn the client. `old` is set on an update.
    fn disabled_fields(
        &self,
        _object: &JsonObject,
        _old: Option<&JsonObject>,
        _gates: &FeatureGates,
    ) -> Vec<DroppedField> {
        Vec::new()
    }

    /// Everything but the status of `object` has already been reset to `old`.
    fn prepare_status_update(
        &self,
        _object: &mut JsonObject,
        _old: &JsonObject,
        _request: &StrategyContext<'_>,
    ) {
    }

    fn validate_status_update(
        &self,
        _object: &FieldView<'_>,
        _old: &FieldView<'_>,
        _request: &StrategyContext<'_>,
        _errors: &mut ErrorList,
    ) {
    }

    /// Like `prepare_update`, for other subresources that take the object itself (`finalize`, `resize`).
    fn prepare_subresource(
        &self,
        _subresource: &str,
        _object: &mut JsonObject,
        _old: &JsonObject,
        _request: &StrategyContext<'_>,
    ) {
    }

    fn validate_subresource(
        &self,
        _subresource: &str,
        _object: &FieldView<'_>,
        _old: &FieldView<'_>,
        _request: &StrategyContext<'_>,
        _errors: &mut ErrorList,
    ) {
    }

    /// Warnings about what the client sent, before defaults overwrite it. `is_update` is false for a creation.
    fn input_warnings(
        &self,
        _object: &FieldView<'_>,
        _is_update: bool,
        _gates: &FeatureGates,
        _warnings: &mut Vec<String>,
    ) {
    }

    /// Warnings for a valid object. `old` is set on an update (`WarningsOnCreate`, `WarningsOnUpdate`).
    fn warnings(
        &self,
        _object: &FieldView<'_>,
        _old: Option<&FieldView<'_>>,
        _warnings: &mut Vec<String>,
    ) {
    }

    /// Whether deletion must wait for something other than the finalizers in the metadata; if so, marks the object
    /// as terminating.
    fn hold_deletion(&self, _object: &mut JsonObject) -> bool {
        false
    }

    /// The reason why the object of this name cannot be deleted, if any.
    fn deletion_forbidden_reason(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// The grace period of a delete in seconds; `None` for kinds without graceful deletion.
    fn grace_period_seconds(
        &self,
        _object: &FieldView<'_>,
        _requested: Option<i64>,
    ) -> Option<i64> {
        None
    }
}

/// The strategy of kinds without logic of their own.
#[derive(Debug)]
pub struct DefaultStrategy;

impl ResourceStrategy for DefaultStrategy {}
