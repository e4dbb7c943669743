//! What the engine decides.

use std::sync::Arc;
use std::time::Duration;

use crate::model::Pod;

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The pod goes to this node, and counts there already. The engine is to be told what the server says:
    /// [`Change::Bound`](super::Change::Bound), [`Change::NotBound`](super::Change::NotBound) or
    /// [`Change::BindingRefused`](super::Change::BindingRefused).
    Bind {
        pod: Arc<Pod>,
        node: Box<str>,
        attempts: u32,
        /// Since it was first seen.
        waited: Duration,
        /// Since it was first tried: gates, and whatever else it waited for before, do not count.
        tried_for: Duration,
        /// How many nodes were looked at, and how many of them would have done.
        looked_at: usize,
        possible: usize,
    },
    /// The pod stays where it is: nowhere.
    Pending {
        pod: Arc<Pod>,
        reason: Reason,
        message: String,
        nominated: Nominated,
        /// Pods that are to be evicted to make room for it, the most important first.
        victims: Vec<Arc<Pod>>,
        attempts: u32,
    },
    /// No place is kept for the pod any more: a more important one gets it, or the pod was to have a node and did not
    /// get it. Its nomination is to be taken back.
    Displaced { pod: Arc<Pod> },
}

/// Of the condition `PodScheduled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    Unschedulable,
    /// There was a node, and the server refused it.
    SchedulerError,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unschedulable => "Unschedulable",
            Reason::SchedulerError => "SchedulerError",
        }
    }
}

/// What becomes of `status.nominatedNodeName`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nominated {
    /// It stays as it is.
    Unchanged,
    Node(Box<str>),
    /// It is taken away, if it is there.
    Nowhere,
}

/// How many pods wait, and where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    pub active: usize,
    pub backoff: usize,
    pub unschedulable: usize,
    pub gated: usize,
    /// Those that are on their way to a node.
    pub binding: usize,
}
