//! How the objects of a kind are written.

use crate::gates::Feature;

/// Where kinds differ in how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writes {
    /// An update of an object that does not exist creates it.
    pub create_on_update: bool,
    /// An update may leave out the resourceVersion.
    pub unconditional_update: bool,
    /// A new object may bring its status.
    pub create_with_status: bool,
    /// What of the metadata an update of the status cannot change.
    pub status_keeps: &'static [&'static str],
    /// A deletion answers with the object that was deleted, not with a Status.
    pub returns_deleted: bool,
    /// Without a propagation policy, dependents are orphaned.
    pub orphans_dependents: bool,
    /// Objects are never owners, whatever a client says that is to become of dependents.
    pub ignores_dependents: bool,
    /// What a client is told that leaves orphans without having said so.
    pub orphan_warning: Option<&'static str>,
    /// Fields that the schema does not know are refused, whatever the client wants done about them.
    pub known_fields_only: Option<KnownFieldsOnly>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownFieldsOnly {
    /// While it is off, clients say what is done about unknown fields.
    pub gate: Feature,
    /// As clients are told.
    pub reason: &'static str,
}

impl Default for Writes {
    fn default() -> Self {
        Writes {
            create_on_update: false,
            unconditional_update: true,
            create_with_status: false,
            status_keeps: &[],
            returns_deleted: false,
            orphans_dependents: false,
            ignores_dependents: false,
            orphan_warning: None,
            known_fields_only: None,
        }
    }
}
