//! Per-kind write behavior: the boolean methods of upstream's `rest` create, update and delete strategies.

use crate::feature_gates::Feature;

/// How creates, updates and deletes of a kind deviate from the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBehavior {
    /// An update of an object that does not exist creates it.
    pub create_on_update: bool,
    /// An update may leave out the resourceVersion.
    pub unconditional_update: bool,
    /// A create keeps the status that the client sends.
    pub create_with_status: bool,
    /// Metadata fields that a status update cannot change.
    pub status_update_preserves: &'static [&'static str],
    /// A delete returns the deleted object instead of a Status.
    pub returns_deleted: bool,
    /// Without a propagation policy, dependents are orphaned.
    pub orphans_dependents: bool,
    /// Objects are never owners; the propagation policy is ignored.
    pub ignores_dependents: bool,
    /// The warning for a delete that orphans dependents without an explicit propagation policy.
    pub orphan_warning: Option<&'static str>,
    /// A delete whose preconditions fail is rejected in the words of upstream's storage layer, which name the resource
    /// and not the kind: upstream's own `Delete` of the kind checks them.
    pub storage_precondition_errors: bool,
    /// Rejects unknown fields regardless of the client's `fieldValidation`.
    pub unknown_field_rejection: Option<UnknownFieldRejection>,
}

/// Rejection of unknown fields, behind a feature gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownFieldRejection {
    /// While it is off, the client's `fieldValidation` applies.
    pub gate: Feature,
    /// The reason in the error message.
    pub reason: &'static str,
    /// Fields of the spec that the server sets if a client leaves them out.
    pub server_set_spec_fields: &'static [&'static str],
}

impl Default for WriteBehavior {
    fn default() -> Self {
        WriteBehavior {
            create_on_update: false,
            unconditional_update: true,
            create_with_status: false,
            status_update_preserves: &[],
            returns_deleted: false,
            orphans_dependents: false,
            ignores_dependents: false,
            orphan_warning: None,
            storage_precondition_errors: false,
            unknown_field_rejection: None,
        }
    }
}
