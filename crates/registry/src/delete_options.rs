//! `DeleteOptions`, the options of delete and deletecollection.

/// How the dependents of a deleted object are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionPropagation {
    Orphan,
    Background,
    Foreground,
}

/// The options of delete and deletecollection.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub dry_run: bool,
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<DeletionPropagation>,
    /// The deprecated form of the propagation policy.
    pub orphan_dependents: Option<bool>,
    pub precondition_uid: Option<String>,
    pub precondition_resource_version: Option<String>,
}
