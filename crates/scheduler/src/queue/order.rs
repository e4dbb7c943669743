//! Who is first.

use std::cmp::Reverse;
use std::time::Instant;

/// The higher priority goes first; among equals, who has waited longer since the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    priority: Reverse<i32>,
    since: Instant,
    /// Of those that came at the same moment, the first. No two have the same.
    sequence: u64,
}

/// The longest waiting first, whatever the priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Age {
    pub(super) since: Instant,
    sequence: u64,
}

impl Order {
    pub(super) fn new(priority: i32, since: Instant, sequence: u64) -> Order {
        Order {
            priority: Reverse(priority),
            since,
            sequence,
        }
    }

    pub(super) fn since(self) -> Instant {
        self.since
    }

    pub(super) fn with_priority(self, priority: i32) -> Order {
        Order {
            priority: Reverse(priority),
            ..self
        }
    }

    /// Behind all who wait already.
    pub(super) fn again(self, since: Instant, sequence: u64) -> Order {
        Order {
            since,
            sequence,
            ..self
        }
    }

    pub(super) fn age(self) -> Age {
        Age {
            since: self.since,
            sequence: self.sequence,
        }
    }

    /// By a moment that is not that since which it waits.
    pub(super) fn at(self, moment: Instant) -> Age {
        Age {
            since: moment,
            sequence: self.sequence,
        }
    }
}
