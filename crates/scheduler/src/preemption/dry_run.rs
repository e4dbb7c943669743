//! Determines the victims on one node by a dry run (upstream: `SelectVictimsOnNode`).

use super::PreemptionEvaluator;
use super::candidate_selection::{PreemptionCandidate, importance_key};
use crate::cluster::{ClusterState, NodeId, PodId};

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// Why preemption on a node does not make the pod fit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PreemptionFailure {
    pub(super) reasons: Vec<String>,
    /// The plugin that rejects the node even without the lower-priority pods.
    pub(super) plugin: Option<usize>,
}

impl PreemptionFailure {
    /// No pod on the node has a lower priority.
    pub(super) fn no_victims() -> PreemptionFailure {
        PreemptionFailure::with_reason(NO_VICTIMS.to_owned())
    }

    fn with_reason(reason: String) -> PreemptionFailure {
        PreemptionFailure {
            reasons: vec![reason],
            plugin: None,
        }
    }
}

impl PreemptionEvaluator<'_> {
    /// Removes all pods of lower priority from the node, then adds back those that can stay; the rest are the victims.
    /// The cluster state is restored before it returns.
    pub(super) fn dry_run(
        &self,
        cluster: &mut ClusterState,
        pod: PodId,
        priority: i32,
        node: NodeId,
    ) -> Result<PreemptionCandidate, PreemptionFailure> {
        if !self.priority_counts.has_lower_on(node, priority) {
            return Err(PreemptionFailure::no_victims());
        }
        let less_important = lower_priority_pods(cluster, node, priority);
        for other in &less_important {
            cluster.move_temporarily(*other, None);
        }
        let answer = self.select_victims(cluster, pod, node, less_important.clone());
        for other in less_important {
            cluster.move_temporarily(other, Some(node));
        }
        answer
    }

    /// Adds back as many pods as can stay: those whose eviction violates a budget first, and by importance within each
    /// group.
    fn select_victims(
        &self,
        cluster: &mut ClusterState,
        pod: PodId,
        node: NodeId,
        less_important: Vec<PodId>,
    ) -> Result<PreemptionCandidate, PreemptionFailure> {
        if let Err((rejection, reasons)) = self.fits(cluster, pod, node) {
            let plugin = Some(rejection.plugin);
            return Err(PreemptionFailure { reasons, plugin });
        }
        let (overdrawing, others) = self
            .disruption_budgets
            .partition_violating(cluster, less_important);
        let mut candidate = PreemptionCandidate {
            node,
            victims: Vec::new(),
            pdb_violations: 0,
        };
        for (group, is_overdrawing) in [(overdrawing, true), (others, false)] {
            for other in group {
                cluster.move_temporarily(other, Some(node));
                if self.fits(cluster, pod, node).is_err() {
                    cluster.move_temporarily(other, None);
                    candidate.victims.push(other);
                    candidate.pdb_violations += usize::from(is_overdrawing);
                }
            }
        }
        if candidate.victims.is_empty() {
            let name = &cluster.nodes().get(node).name;
            let reason = format!("expected at least one victim pod on node {name:?}");
            return Err(PreemptionFailure::with_reason(reason));
        }
        candidate
            .victims
            .sort_by_key(|victim| importance_of(cluster, *victim));
        Ok(candidate)
    }
}

/// The pods on a node with a lower priority, the most important first.
fn lower_priority_pods(cluster: &ClusterState, node: NodeId, priority: i32) -> Vec<PodId> {
    let pods = cluster.nodes().get(node).pods().iter().copied();
    let mut found: Vec<PodId> = pods
        .filter(|pod| {
            let slot = cluster.pods().get(*pod);
            slot.is_some_and(|slot| slot.pod.priority < priority)
        })
        .collect();
    found.sort_by_key(|pod| importance_of(cluster, *pod));
    found
}

fn importance_of(
    cluster: &ClusterState,
    pod: PodId,
) -> Option<(
    (
        std::cmp::Reverse<i32>,
        super::candidate_selection::PodStartTime,
    ),
    PodId,
)> {
    let slot = cluster.pods().get(pod)?;
    Some((importance_key(&slot.pod), pod))
}
