//! Preemption: selects a node and the lower-priority pods to evict from it for an unschedulable pod (upstream: plugin
//! DefaultPreemption). Entry point: [`PreemptionEvaluator::evaluate`].

mod candidate_selection;
mod disruption_budgets;
mod dry_run;
mod priority_counts;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub use candidate_selection::PreemptionCandidate;
pub use disruption_budgets::DisruptionBudgets;
pub use priority_counts::PodPriorityCounts;

use crate::cluster::{ClusterState, NodeId, PodId};
use crate::cycle::{
    Diagnosis, NodeRejection, Nominator, Profile, SplitMix64Rng, unavailable_message,
};
use crate::model::PreemptionPolicy;
use dry_run::PreemptionFailure;

/// How many candidate nodes are evaluated before one is selected (upstream: `DefaultPreemptionArgs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultPreemptionArgs {
    /// Of the nodes on which preemption might help.
    pub min_candidate_nodes_percentage: u8,
    pub min_candidate_nodes_absolute: usize,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        DefaultPreemptionArgs {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

impl DefaultPreemptionArgs {
    fn candidates_to_find(&self, nodes: usize) -> usize {
        let part = nodes * usize::from(self.min_candidate_nodes_percentage) / 100;
        part.max(self.min_candidate_nodes_absolute).min(nodes)
    }
}

/// If a victim is not terminating after this time, its eviction is considered lost, and the preemptor is retried.
pub const VICTIM_TERMINATION_TIMEOUT: Duration = Duration::from_secs(60);

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// Evaluates preemption for one pod (upstream: `preemption.Evaluator`).
#[derive(Debug)]
pub struct PreemptionEvaluator<'e> {
    pub profile: &'e Profile,
    pub args: DefaultPreemptionArgs,
    pub nominator: &'e Nominator,
    pub disruption_budgets: &'e DisruptionBudgets,
    pub priority_counts: &'e PodPriorityCounts,
}

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreemptionResult {
    /// The selected node and the pods to evict from it.
    Victims(PreemptionCandidate),
    /// The pod may not preempt: by its policy, or because victims on its nominated node are still terminating.
    NotEligible(&'static str),
    /// Preemption makes the pod fit on no node. `plugins` are the indexes of the plugins that reject it even then.
    NotHelpful {
        message: String,
        plugins: Vec<usize>,
    },
}

impl PreemptionEvaluator<'_> {
    /// Selects the victims for an unschedulable pod. The cluster state is restored before it returns.
    pub fn evaluate(
        &self,
        cluster: &mut ClusterState,
        pod: PodId,
        diagnosis: &Diagnosis,
        shuffle: &mut SplitMix64Rng,
        now: Instant,
    ) -> PreemptionResult {
        if let Some(failure) = self.ineligibility(cluster, pod, diagnosis, now) {
            return PreemptionResult::NotEligible(failure);
        }
        let mut nodes: Vec<NodeId> = diagnosis
            .rejected_nodes
            .iter()
            .filter(|(_, rejection)| rejection.rejection.is_resolvable)
            .map(|(node, _)| *node)
            .collect();
        if !nodes.is_empty() {
            let start = shuffle.below(nodes.len() as u64);
            nodes.rotate_left(usize::try_from(start).unwrap_or_default());
        }
        let (candidates, reasons) = self.find_candidates(cluster, pod, &nodes);
        match candidate_selection::select_candidate(cluster, candidates) {
            Some(best) => PreemptionResult::Victims(best),
            None => {
                let nodes = cluster.nodes().order().len();
                PreemptionResult::NotHelpful {
                    plugins: reasons
                        .keys()
                        .filter_map(|failure| failure.plugin)
                        .collect(),
                    message: failure_message(nodes, reasons),
                }
            }
        }
    }

    /// Dry-runs preemption on nodes until there are enough candidates. Also returns the number of nodes per failure.
    fn find_candidates(
        &self,
        cluster: &mut ClusterState,
        pod: PodId,
        nodes: &[NodeId],
    ) -> (Vec<PreemptionCandidate>, BTreeMap<PreemptionFailure, usize>) {
        let mut candidates = Vec::new();
        let mut reasons: BTreeMap<PreemptionFailure, usize> = BTreeMap::new();
        let Some(priority) = cluster.pods().get(pod).map(|slot| slot.pod.priority) else {
            return (candidates, reasons);
        };
        if !self.priority_counts.has_lower(priority) && !nodes.is_empty() {
            reasons.insert(PreemptionFailure::no_victims(), nodes.len());
            return (candidates, reasons);
        }
        let enough = self.args.candidates_to_find(nodes.len());
        let mut non_violating = 0;
        for node in nodes {
            match self.dry_run(cluster, pod, priority, *node) {
                Ok(candidate) => {
                    non_violating += usize::from(candidate.pdb_violations == 0);
                    candidates.push(candidate);
                    if non_violating > 0 && candidates.len() >= enough {
                        break;
                    }
                }
                Err(failure) => *reasons.entry(failure).or_default() += 1,
            }
        }
        (candidates, reasons)
    }

    /// Why the pod may not preempt, if so (upstream: `PodEligibleToPreemptOthers`).
    fn ineligibility(
        &self,
        cluster: &ClusterState,
        pod: PodId,
        diagnosis: &Diagnosis,
        now: Instant,
    ) -> Option<&'static str> {
        let slot = cluster.pods().get(pod)?;
        if slot.pod.preemption_policy == PreemptionPolicy::Never {
            return Some("not eligible due to preemptionPolicy=Never.");
        }
        let nomination = self.nominator.get(pod)?;
        let node = cluster.nodes().find(&nomination.node)?;
        // If evictions can no longer make the nominated node fit, another node must be found.
        let mut refused = diagnosis.rejected_nodes.iter();
        let (_, rejection) = refused.find(|(known, _)| *known == node)?;
        if !rejection.rejection.is_resolvable {
            return None;
        }
        let is_terminating_victim = |other: &PodId| {
            cluster.pods().get(*other).is_some_and(|other| {
                let is_recent_victim = now < nomination.since + VICTIM_TERMINATION_TIMEOUT
                    && nomination.victims.contains(&other.pod.uid);
                other.pod.priority < slot.pod.priority
                    && (other.pod.is_preempted || is_recent_victim)
            })
        };
        let mut pods = cluster.nodes().get(node).pods().iter();
        pods.any(is_terminating_victim)
            .then_some("not eligible due to a terminating pod on the nominated node.")
    }

    fn fits(
        &self,
        cluster: &mut ClusterState,
        pod: PodId,
        node: NodeId,
    ) -> Result<(), (NodeRejection, Vec<String>)> {
        self.profile
            .fits_with_nominated_pods(self.nominator, cluster, pod, node)
    }
}

fn failure_message(nodes: usize, failures: BTreeMap<PreemptionFailure, usize>) -> String {
    let tried: usize = failures.values().sum();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (failure, times) in failures {
        for reason in failure.reasons {
            *reasons.entry(reason).or_default() += times;
        }
    }
    if tried < nodes {
        *reasons.entry(NOT_HELPFUL.to_owned()).or_default() += nodes - tried;
    }
    let reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    unavailable_message(nodes, &reasons)
}
