//! Who makes room for a pod that has no place.

mod budgets;
mod choice;
mod dry_run;
mod ranks;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub use budgets::Budgets;
pub use choice::Candidate;
pub use ranks::Ranks;

use crate::cluster::{Cluster, NodeId, PodId};
use crate::cycle::{Diagnosis, Nominations, Objection, Profile, Shuffle, message_of};
use crate::model::PreemptionPolicy;
use dry_run::InVain;

/// Of how many nodes it is found out who would have to go, before one is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemption {
    /// Of the nodes where it could help.
    pub min_candidate_nodes_percentage: u8,
    pub min_candidate_nodes_absolute: usize,
}

impl Default for Preemption {
    fn default() -> Self {
        Preemption {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

impl Preemption {
    fn candidates(&self, nodes: usize) -> usize {
        let part = nodes * usize::from(self.min_candidate_nodes_percentage) / 100;
        part.max(self.min_candidate_nodes_absolute).min(nodes)
    }
}

/// Victims that have not even begun to leave after this time were not told, or did not hear: the pod that waits for them
/// is to be tried again.
pub const PATIENCE: Duration = Duration::from_secs(60);

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

#[derive(Debug)]
pub struct Preemptor<'e> {
    pub profile: &'e Profile,
    pub settings: Preemption,
    pub nominations: &'e Nominations,
    pub budgets: &'e Budgets,
    pub ranks: &'e Ranks,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// These are to leave that node.
    Victims(Candidate),
    /// It has its place already, and waits until others are gone; or it must not.
    NotEligible(&'static str),
    /// It would not help, whoever left. Some plugins, by their places in the profile, would still object.
    NotHelpful {
        message: String,
        plugins: Vec<usize>,
    },
}

impl Preemptor<'_> {
    /// Finds out who has to leave for a pod that has no place. Nothing has changed in the end.
    pub fn preempt(
        &self,
        cluster: &mut Cluster,
        pod: PodId,
        diagnosis: &Diagnosis,
        shuffle: &mut Shuffle,
        now: Instant,
    ) -> Finding {
        if let Some(why) = self.is_not_eligible(cluster, pod, diagnosis, now) {
            return Finding::NotEligible(why);
        }
        let mut nodes: Vec<NodeId> = diagnosis
            .refused
            .iter()
            .filter(|(_, objection)| objection.refusal.is_resolvable)
            .map(|(node, _)| *node)
            .collect();
        if !nodes.is_empty() {
            let start = shuffle.below(nodes.len() as u64);
            nodes.rotate_left(usize::try_from(start).unwrap_or_default());
        }
        let (candidates, reasons) = self.candidates(cluster, pod, &nodes);
        match choice::best(cluster, candidates) {
            Some(best) => Finding::Victims(best),
            None => {
                let nodes = cluster.nodes().order().len();
                Finding::NotHelpful {
                    plugins: reasons.keys().filter_map(|why| why.plugin).collect(),
                    message: in_vain(nodes, reasons),
                }
            }
        }
    }

    /// Looks at nodes until there are enough to choose from. For those where it would not help: how often each reason
    /// was given.
    fn candidates(
        &self,
        cluster: &mut Cluster,
        pod: PodId,
        nodes: &[NodeId],
    ) -> (Vec<Candidate>, BTreeMap<InVain, usize>) {
        let mut candidates = Vec::new();
        let mut reasons: BTreeMap<InVain, usize> = BTreeMap::new();
        let Some(priority) = cluster.pods().get(pod).map(|slot| slot.facts.priority) else {
            return (candidates, reasons);
        };
        if !self.ranks.has_lower(priority) && !nodes.is_empty() {
            reasons.insert(InVain::without_victims(), nodes.len());
            return (candidates, reasons);
        }
        let enough = self.settings.candidates(nodes.len());
        let mut harmless = 0;
        for node in nodes {
            match self.dry_run(cluster, pod, priority, *node) {
                Ok(candidate) => {
                    harmless += usize::from(candidate.overdrawing == 0);
                    candidates.push(candidate);
                    if harmless > 0 && candidates.len() >= enough {
                        break;
                    }
                }
                Err(why) => *reasons.entry(why).or_default() += 1,
            }
        }
        (candidates, reasons)
    }

    fn is_not_eligible(
        &self,
        cluster: &Cluster,
        pod: PodId,
        diagnosis: &Diagnosis,
        now: Instant,
    ) -> Option<&'static str> {
        let slot = cluster.pods().get(pod)?;
        if slot.facts.preemption_policy == PreemptionPolicy::Never {
            return Some("not eligible due to preemptionPolicy=Never.");
        }
        let nomination = self.nominations.get(pod)?;
        let node = cluster.nodes().find(&nomination.node)?;
        // If that node cannot be any more, whoever leaves it, another has to be found.
        let mut refused = diagnosis.refused.iter();
        let (_, objection) = refused.find(|(known, _)| *known == node)?;
        if !objection.refusal.is_resolvable {
            return None;
        }
        let is_leaving = |other: &PodId| {
            cluster.pods().get(*other).is_some_and(|other| {
                let was_told = now < nomination.since + PATIENCE
                    && nomination.victims.contains(&other.facts.uid);
                other.facts.priority < slot.facts.priority && (other.facts.is_preempted || was_told)
            })
        };
        let mut pods = cluster.nodes().get(node).pods().iter();
        pods.any(is_leaving)
            .then_some("not eligible due to a terminating pod on the nominated node.")
    }

    fn accepts(
        &self,
        cluster: &mut Cluster,
        pod: PodId,
        node: NodeId,
    ) -> Result<(), (Objection, Vec<String>)> {
        self.profile.accepts(self.nominations, cluster, pod, node)
    }
}

fn in_vain(nodes: usize, by_reasons: BTreeMap<InVain, usize>) -> String {
    let tried: usize = by_reasons.values().sum();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (why, times) in by_reasons {
        for reason in why.reasons {
            *reasons.entry(reason).or_default() += times;
        }
    }
    if tried < nodes {
        *reasons.entry(NOT_HELPFUL.to_owned()).or_default() += nodes - tried;
    }
    let reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    message_of(nodes, &reasons)
}
