//! What may be consumed only where a quota covers it.

use crate::Requirement;

/// One entry of the configuration's `limitedResources`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    pub group: String,
    pub resource: String,
    /// A covering quota is needed for each name an object counts for that contains one of these.
    pub contains: Vec<String>,
    /// A covering quota is needed for each of these scopes that an object is in.
    pub scopes: Vec<Requirement>,
}
