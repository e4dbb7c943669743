//! Selects the preemption candidate with the least costly victims (upstream: `pickOneNodeForPreemption`).

use std::cmp::Reverse;

use rhumb_meta::Timestamp;

use crate::cluster::{ClusterState, NodeId, PodId};
use crate::model::Pod;

/// A node on which the pod fits after its victims are evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptionCandidate {
    pub node: NodeId,
    /// Sorted by importance, the most important first.
    pub victims: Vec<PodId>,
    /// The number of victims whose eviction violates a PodDisruptionBudget.
    pub pdb_violations: usize,
}

/// The cost of a candidate's victims, compared field by field; the smallest is best.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VictimCost {
    pdb_violations: usize,
    highest_priority: i32,
    /// The sum of the priorities, each relative to `i32::MIN`, so that more victims are never cheaper than fewer of the
    /// same priorities.
    priority_sum: i64,
    victims: usize,
    /// The earliest start among the victims of the highest priority: later is cheaper.
    earliest_start: Reverse<PodStartTime>,
}

/// The start time of a pod. A pod that has not started sorts last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodStartTime {
    At(Timestamp),
    NotStarted,
}

impl PodStartTime {
    fn of(pod: &Pod) -> PodStartTime {
        pod.started
            .map_or(PodStartTime::NotStarted, PodStartTime::At)
    }
}

/// Sort key with the most important pod first: higher priority, then earlier start (upstream: `MoreImportantPod`).
pub(super) fn importance_key(pod: &Pod) -> (Reverse<i32>, PodStartTime) {
    (Reverse(pod.priority), PodStartTime::of(pod))
}

/// The candidate with the lowest cost; the first of several.
pub(super) fn select_candidate(
    cluster: &ClusterState,
    candidates: Vec<PreemptionCandidate>,
) -> Option<PreemptionCandidate> {
    candidates
        .into_iter()
        .min_by_key(|candidate| victim_cost(cluster, candidate))
}

fn victim_cost(cluster: &ClusterState, candidate: &PreemptionCandidate) -> VictimCost {
    let victims = || {
        let slots = candidate.victims.iter();
        slots.filter_map(|victim| cluster.pods().get(*victim))
    };
    let priorities = || victims().map(|slot| slot.pod.priority);
    let highest_priority = priorities().max().unwrap_or(i32::MIN);
    let most_important = victims().filter(|slot| slot.pod.priority == highest_priority);
    let starts = most_important.map(|slot| PodStartTime::of(&slot.pod));
    VictimCost {
        pdb_violations: candidate.pdb_violations,
        highest_priority,
        priority_sum: priorities()
            .map(|priority| i64::from(priority) - i64::from(i32::MIN))
            .fold(0, i64::saturating_add),
        victims: candidate.victims.len(),
        earliest_start: Reverse(starts.min().unwrap_or(PodStartTime::NotStarted)),
    }
}
