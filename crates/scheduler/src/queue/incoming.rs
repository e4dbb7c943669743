//! What came into the queues, and why, for those who count it.

use super::Place;

/// Why a pod came into a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    PodAdded,
    PodUpdated,
    AttemptFailed,
    BackoffOver,
    SleptTooLong,
    PodPlaced,
    PlacedPodUpdated,
    PodLeft,
    NodeAdded,
    NodeUpdated,
    NodeLeft,
    NamespaceUpdated,
    GroupUpdated,
}

impl Cause {
    /// In the order of their declaration.
    const ALL: [Cause; 13] = [
        Cause::PodAdded,
        Cause::PodUpdated,
        Cause::AttemptFailed,
        Cause::BackoffOver,
        Cause::SleptTooLong,
        Cause::PodPlaced,
        Cause::PlacedPodUpdated,
        Cause::PodLeft,
        Cause::NodeAdded,
        Cause::NodeUpdated,
        Cause::NodeLeft,
        Cause::NamespaceUpdated,
        Cause::GroupUpdated,
    ];

    /// As upstream calls it, where upstream knows it.
    fn label(self) -> &'static str {
        match self {
            Cause::PodAdded => "UnschedulablePodAdd",
            Cause::PodUpdated => "UnschedulablePodUpdate",
            Cause::AttemptFailed => "ScheduleAttemptFailure",
            Cause::BackoffOver => "BackoffComplete",
            Cause::SleptTooLong => "UnschedulableTimeout",
            Cause::PodPlaced => "AssignedPodAdd",
            Cause::PlacedPodUpdated => "AssignedPodUpdate",
            Cause::PodLeft => "AssignedPodDelete",
            Cause::NodeAdded => "NodeAdd",
            Cause::NodeUpdated => "NodeUpdate",
            Cause::NodeLeft => "NodeDelete",
            Cause::NamespaceUpdated => "NamespaceUpdate",
            Cause::GroupUpdated => "ServiceUpdate",
        }
    }
}

const QUEUES: [&str; 4] = ["active", "backoff", "unschedulable", "gated"];

#[derive(Debug, Default)]
pub struct Incoming {
    /// Of what comes next; `None` if it was there already.
    pub(super) cause: Option<Cause>,
    counts: [[u64; Cause::ALL.len()]; QUEUES.len()],
}

impl Incoming {
    pub(super) fn note(&mut self, place: Place) {
        let queue = match place {
            Place::Active => 0,
            Place::Resting { .. } => 1,
            Place::Asleep => 2,
            Place::Gated => 3,
            Place::Binding => return,
        };
        if let Some(cause) = self.cause {
            self.counts[queue][cause as usize] += 1;
        }
    }

    /// How many pods came into which queue by which event, in upstream's words.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let queues = QUEUES.into_iter().zip(&self.counts);
        let all = queues.flat_map(|(queue, counts)| {
            let causes = Cause::ALL.into_iter().zip(counts);
            causes.map(move |(cause, count)| (queue, cause.label(), *count))
        });
        all.filter(|(_, _, count)| *count > 0)
    }
}
