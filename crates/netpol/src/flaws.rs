//! What is wrong with a policy that can be told from the policy alone.

use crate::objects::PolicySpec;

/// A static defect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// For machines: `AmbiguousCIDR`, `SelectorNeverMatches`, `ExceptOutsideBlock`, ...
    pub reason: &'static str,
    /// For people, with the field that it is about.
    pub message: String,
}

/// All that is wrong, in order of fields.
pub fn find(_spec: &PolicySpec) -> Vec<Flaw> {
    Vec::new()
}
