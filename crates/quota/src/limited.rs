//! What may be used only where a quota says how much.

use crate::Requirement;

/// One entry of `limitedResources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    pub group: String,
    pub resource: String,
    /// Resources whose names contain one of these.
    pub contains: Vec<String>,
    /// Objects that are in one of these scopes.
    pub scopes: Vec<Requirement>,
}
