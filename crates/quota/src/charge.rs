//! What one object counts for.

use rhumb_meta::quantity::Format;
use rhumb_meta::{Quantity, Timestamp};

use crate::Amounts;

/// Upstream's own largest amount. Millions of these, and of billionths beside them, are still exact.
const MOST: Quantity = Quantity::new(i64::MAX, Format::DecimalSi);

/// What an object uses, and what scopes ask of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Charge {
    pub amounts: Amounts,
    pub traits: Traits,
    /// From then on it counts for `later` only, though nothing changes: a pod whose grace is over.
    pub lapses: Option<Timestamp>,
    pub later: Amounts,
    /// What a quota may ask every container to name, and some does not.
    pub unnamed: Vec<&'static str>,
}

impl Charge {
    /// Amounts that no cluster has count as the most that can still be added up exactly: whatever was added can then
    /// be taken away again.
    pub(crate) fn bounded(mut self) -> Charge {
        self.amounts.bound(&MOST);
        self.later.bound(&MOST);
        self
    }
}

/// What scopes look at. Kinds without scopes match none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Traits {
    #[default]
    None,
    Pod {
        is_terminating: bool,
        is_best_effort: bool,
        /// Empty if it has none.
        priority_class: Box<str>,
        has_cross_namespace_affinity: bool,
    },
    /// The attributes classes that a claim for a volume names, wanted or current.
    VolumeClaim { attributes_classes: Box<[Box<str>]> },
}
