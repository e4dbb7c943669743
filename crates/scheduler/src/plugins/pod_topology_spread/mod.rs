//! `PodTopologySpread`: pods that belong together are spread evenly.

use super::Plugin;
use crate::model::SpreadConstraint;

/// What is done about pods that say nothing of spreading themselves, where services or controllers pick them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultConstraints {
    /// Over nodes and zones, where it can be.
    #[default]
    System,
    /// These; their selectors have no effect.
    List(Vec<SpreadConstraint>),
}

#[derive(Debug)]
pub struct PodTopologySpread {
    #[allow(dead_code)]
    defaults: DefaultConstraints,
}

impl PodTopologySpread {
    pub fn new(defaults: DefaultConstraints) -> PodTopologySpread {
        PodTopologySpread { defaults }
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }
}
