//! Sort keys of the queues (upstream: plugin PrioritySort).

use std::cmp::Reverse;
use std::time::Instant;

/// Key of the active queue: higher priority first, then longer waiting since the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueOrderKey {
    priority: Reverse<i32>,
    since: Instant,
    /// Unique; orders pods that were added at the same instant.
    sequence: u64,
}

/// Key of the backoff and unschedulable queues: by time only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueTimeKey {
    pub(super) since: Instant,
    sequence: u64,
}

impl QueueOrderKey {
    pub(super) fn new(priority: i32, since: Instant, sequence: u64) -> QueueOrderKey {
        QueueOrderKey {
            priority: Reverse(priority),
            since,
            sequence,
        }
    }

    pub(super) fn since(self) -> Instant {
        self.since
    }

    pub(super) fn with_priority(self, priority: i32) -> QueueOrderKey {
        QueueOrderKey {
            priority: Reverse(priority),
            ..self
        }
    }

    /// The key of a pod that is queued again, behind all pods of the same priority.
    pub(super) fn requeued(self, since: Instant, sequence: u64) -> QueueOrderKey {
        QueueOrderKey {
            since,
            sequence,
            ..self
        }
    }

    pub(super) fn time_key(self) -> QueueTimeKey {
        QueueTimeKey {
            since: self.since,
            sequence: self.sequence,
        }
    }

    /// The time key for another instant, such as the end of the backoff.
    pub(super) fn time_key_at(self, moment: Instant) -> QueueTimeKey {
        QueueTimeKey {
            since: moment,
            sequence: self.sequence,
        }
    }
}
