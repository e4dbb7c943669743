//! Counts of pods added to each queue by event (upstream: metric `queue_incoming_pods_total`).

use super::QueuedPodState;

/// The event that added a pod to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueingEvent {
    PodAdded,
    PodUpdated,
    AttemptFailed,
    BackoffComplete,
    UnschedulableTimeout,
    AssignedPodAdded,
    AssignedPodUpdated,
    AssignedPodDeleted,
    NodeAdded,
    NodeUpdated,
    NodeDeleted,
    NamespaceUpdated,
    SpreadOwnerUpdated,
}

impl QueueingEvent {
    /// In declaration order, by which `counts` is indexed.
    const ALL: [QueueingEvent; 13] = [
        QueueingEvent::PodAdded,
        QueueingEvent::PodUpdated,
        QueueingEvent::AttemptFailed,
        QueueingEvent::BackoffComplete,
        QueueingEvent::UnschedulableTimeout,
        QueueingEvent::AssignedPodAdded,
        QueueingEvent::AssignedPodUpdated,
        QueueingEvent::AssignedPodDeleted,
        QueueingEvent::NodeAdded,
        QueueingEvent::NodeUpdated,
        QueueingEvent::NodeDeleted,
        QueueingEvent::NamespaceUpdated,
        QueueingEvent::SpreadOwnerUpdated,
    ];

    /// The value of the metric label `event`, as upstream names it where it has the event.
    fn label(self) -> &'static str {
        match self {
            QueueingEvent::PodAdded => "UnschedulablePodAdd",
            QueueingEvent::PodUpdated => "UnschedulablePodUpdate",
            QueueingEvent::AttemptFailed => "ScheduleAttemptFailure",
            QueueingEvent::BackoffComplete => "BackoffComplete",
            QueueingEvent::UnschedulableTimeout => "UnschedulableTimeout",
            QueueingEvent::AssignedPodAdded => "AssignedPodAdd",
            QueueingEvent::AssignedPodUpdated => "AssignedPodUpdate",
            QueueingEvent::AssignedPodDeleted => "AssignedPodDelete",
            QueueingEvent::NodeAdded => "NodeAdd",
            QueueingEvent::NodeUpdated => "NodeUpdate",
            QueueingEvent::NodeDeleted => "NodeDelete",
            QueueingEvent::NamespaceUpdated => "NamespaceUpdate",
            QueueingEvent::SpreadOwnerUpdated => "ServiceUpdate",
        }
    }
}

const QUEUES: [&str; 4] = ["active", "backoff", "unschedulable", "gated"];

/// The number of pods added per queue and event.
#[derive(Debug, Default)]
pub struct IncomingPodCounts {
    /// The event of the next addition; `None` if the pod returns to the queue it was in and must not be counted.
    pub(super) event: Option<QueueingEvent>,
    counts: [[u64; QueueingEvent::ALL.len()]; QUEUES.len()],
}

impl IncomingPodCounts {
    pub(super) fn record(&mut self, state: QueuedPodState) {
        let queue = match state {
            QueuedPodState::Active => 0,
            QueuedPodState::Backoff { .. } => 1,
            QueuedPodState::Unschedulable => 2,
            QueuedPodState::Gated => 3,
            QueuedPodState::InFlight => return,
        };
        if let Some(cause) = self.event {
            self.counts[queue][cause as usize] += 1;
        }
    }

    /// The non-zero counts as (queue, event, count), with upstream's label values.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let queues = QUEUES.into_iter().zip(&self.counts);
        let all = queues.flat_map(|(queue, counts)| {
            let causes = QueueingEvent::ALL.into_iter().zip(counts);
            causes.map(move |(cause, count)| (queue, cause.label(), *count))
        });
        all.filter(|(_, _, count)| *count > 0)
    }
}
