//! Which of several nodes hurts least.

use std::cmp::Reverse;

use rhumb_meta::Timestamp;

use crate::cluster::{Cluster, NodeId, PodId};
use crate::model::Pod;

/// A node that would do, and who would have to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub node: NodeId,
    /// The most important first.
    pub victims: Vec<PodId>,
    /// How many of them would overdraw a budget.
    pub overdrawing: usize,
}

/// How much it hurts: the least is best.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Harm {
    overdrawing: usize,
    highest_priority: i32,
    /// Each counted from the lowest priority there is, so that more victims are never better than fewer of the same.
    priorities: i64,
    victims: usize,
    /// The later the most important victims began, the less is lost.
    earliest_start: Reverse<Start>,
}

/// When a pod began. One that has not begun yet is the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Start {
    At(Timestamp),
    NotYet,
}

impl Start {
    fn of(pod: &Pod) -> Start {
        pod.started.map_or(Start::NotYet, Start::At)
    }
}

/// The higher priority is more important; among equals, who began earlier. The least is the most important.
pub(super) fn importance(pod: &Pod) -> (Reverse<i32>, Start) {
    (Reverse(pod.priority), Start::of(pod))
}

/// The one that hurts least, or the first of them.
pub(super) fn best(cluster: &Cluster, candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates
        .into_iter()
        .min_by_key(|candidate| harm(cluster, candidate))
}

fn harm(cluster: &Cluster, candidate: &Candidate) -> Harm {
    let victims = || {
        let slots = candidate.victims.iter();
        slots.filter_map(|victim| cluster.pods().get(*victim))
    };
    let priorities = || victims().map(|slot| slot.facts.priority);
    let highest_priority = priorities().max().unwrap_or(i32::MIN);
    let most_important = victims().filter(|slot| slot.facts.priority == highest_priority);
    let starts = most_important.map(|slot| Start::of(&slot.facts));
    Harm {
        overdrawing: candidate.overdrawing,
        highest_priority,
        priorities: priorities()
            .map(|priority| i64::from(priority) - i64::from(i32::MIN))
            .fold(0, i64::saturating_add),
        victims: candidate.victims.len(),
        earliest_start: Reverse(starts.min().unwrap_or(Start::NotYet)),
    }
}
