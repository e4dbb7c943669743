//! The output of the scheduler core: what to write to the API server.

use std::sync::Arc;
use std::time::Duration;

use crate::model::Pod;

/// The result of a scheduling attempt, or of a change to a nomination.
#[derive(Debug, Clone, PartialEq)]
pub enum SchedulingOutcome {
    /// Bind the pod to this node, on which it is assumed already. The result must be reported with
    /// `SchedulerEvent::BindingSucceeded`, `BindingConflict` or `BindingRejected`.
    Bind {
        pod: Arc<Pod>,
        node: Box<str>,
        attempts: u32,
        /// The time since the pod was added to the queue.
        since_enqueued: Duration,
        /// The time since the first attempt, which does not include the time it was gated.
        since_first_attempt: Duration,
        evaluated_nodes: usize,
        feasible_nodes: usize,
    },
    /// The pod stays pending: set its condition `PodScheduled` to false.
    Unscheduled {
        pod: Arc<Pod>,
        reason: PodScheduledReason,
        message: String,
        nominated: NominationUpdate,
        /// The pods to evict for it, the most important first.
        victims: Vec<Arc<Pod>>,
        attempts: u32,
    },
    /// Clear `status.nominatedNodeName`: a pod of higher priority is nominated for the node, or the binding failed.
    NominationCleared { pod: Arc<Pod> },
}

/// The reason of the condition `PodScheduled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PodScheduledReason {
    Unschedulable,
    /// The binding was rejected, or the namespace is not known.
    SchedulerError,
}

impl PodScheduledReason {
    pub fn as_str(self) -> &'static str {
        match self {
            PodScheduledReason::Unschedulable => "Unschedulable",
            PodScheduledReason::SchedulerError => "SchedulerError",
        }
    }
}

/// How to change `status.nominatedNodeName`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NominationUpdate {
    Unchanged,
    Set(Box<str>),
    Clear,
}

/// The number of queued pods per queue (upstream: metric `pending_pods`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingPodCounts {
    pub active: usize,
    pub backoff: usize,
    pub unschedulable: usize,
    pub gated: usize,
    /// Pods that are being scheduled or bound.
    pub binding: usize,
}
