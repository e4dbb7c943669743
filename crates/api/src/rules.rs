//! What a kind does with its objects beyond what its schema says.

use std::collections::BTreeMap;
use std::fmt::Debug;

use rhumb_meta::Timestamp;
use rhumb_meta::field::ErrorList;

use crate::{Gates, Object, View};

/// What rules may know of the request they are part of.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub gates: &'a Gates,
    pub now: Timestamp,
    /// Who asks; empty for the server itself.
    pub user: &'a str,
    /// What else is known of who asks.
    pub uid: &'a str,
    pub groups: &'a [String],
    pub extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

/// The code of a kind. Every method has the answer of a kind without rules of its own.
///
/// In the order of a write: decoded and pruned by the schema, `default`, `prepare_*`, `validate_*`, `warnings`.
/// Metadata (names, labels, owner references, generation, timestamps) is common to all kinds and checked
/// before these are asked; so is that a status is only changed through the status subresource.
pub trait Rules: Debug + Send + Sync {
    /// Fills in what was left out and the schema's own defaults do not say.
    fn default(&self, _object: &mut Object) {}

    /// Puts right what a client may not set, and sets what only the server may.
    fn prepare_create(&self, _object: &mut Object, _request: &Request<'_>) {}

    fn prepare_update(&self, _object: &mut Object, _old: &Object, _request: &Request<'_>) {}

    fn validate_create(&self, _object: &View<'_>, _request: &Request<'_>, _errors: &mut ErrorList) {
    }

    /// Both what `validate_create` asks for and what may not change.
    fn validate_update(
        &self,
        _object: &View<'_>,
        _old: &View<'_>,
        _request: &Request<'_>,
        _errors: &mut ErrorList,
    ) {
    }

    /// The new object has the old one's everything but status already.
    fn prepare_status_update(&self, _object: &mut Object, _old: &Object, _request: &Request<'_>) {}

    fn validate_status_update(
        &self,
        _object: &View<'_>,
        _old: &View<'_>,
        _request: &Request<'_>,
        _errors: &mut ErrorList,
    ) {
    }

    /// As `prepare_update`, of any other subresource that takes the object itself (`finalize`, `resize`).
    fn prepare_subresource(
        &self,
        _subresource: &str,
        _object: &mut Object,
        _old: &Object,
        _request: &Request<'_>,
    ) {
    }

    fn validate_subresource(
        &self,
        _subresource: &str,
        _object: &View<'_>,
        _old: &View<'_>,
        _request: &Request<'_>,
        _errors: &mut ErrorList,
    ) {
    }

    /// What the client should know although nothing is wrong. `old` is there in an update.
    fn warnings(&self, _object: &View<'_>, _old: Option<&View<'_>>, _warnings: &mut Vec<String>) {}

    /// Whether a deleted object has to wait for something other than its finalizers; if so, the object is marked
    /// as waiting.
    fn hold_deletion(&self, _object: &mut Object) -> bool {
        false
    }

    /// Why the object of this name can never be deleted, if so.
    fn forbids_deletion(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// How long a deleted object stays to end in peace, in seconds; `None` for kinds that end at once.
    fn grace_seconds(&self, _object: &View<'_>, _requested: Option<i64>) -> Option<i64> {
        None
    }
}

/// The rules of a kind that has none.
#[derive(Debug)]
pub struct NoRules;

impl Rules for NoRules {}
