//! What is to be told about a policy.

use std::collections::BTreeMap;

use crate::flaws::Flaw;

/// What the status of a policy is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub uid: String,
    pub generation: i64,
    /// The version it needs: what it says, or what follows from the features it uses.
    pub min_version: String,
    /// How many pods it selects on each node; those that are on no node yet are in `unplaced`.
    pub nodes: BTreeMap<String, usize>,
    pub unplaced: usize,
    /// Whether a rule matches at least one pod, a range of addresses, or everybody; `None` if there is no rule that
    /// counts, so that there is nothing to match.
    pub traffic: Option<bool>,
    pub flaws: Vec<Flaw>,
}

impl Summary {
    pub fn has_targets(&self) -> bool {
        self.unplaced > 0 || !self.nodes.is_empty()
    }
}
