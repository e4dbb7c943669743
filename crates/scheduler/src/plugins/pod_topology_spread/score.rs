//! Score: prefers nodes whose domains have fewer matching pods (`whenUnsatisfiable: ScheduleAnyway`).

use super::constraints::ResolvedSpreadConstraint;
use super::eligible_counts::EligiblePodCounts;
use super::{HOSTNAME, PodTopologySpread};
use crate::cluster::{
    ClusterState, DomainCounts, Id, NodeId, PodInfo, TopologyDomainId, TopologyDomains, TopologyId,
};
use crate::model::WhenUnsatisfiable;
use crate::plugins::{NodeScorer, SCORE_MAX};

pub(super) struct TopologySpreadScorer<'c> {
    constraints: Vec<ConstraintScore<'c>>,
    /// Whether nodes that lack one of the topology labels score 0.
    needs_all_labels: bool,
}

/// The scoring state of one constraint.
struct ConstraintScore<'c> {
    topology: &'c TopologyDomains,
    counts: MatchingPodCounts<'c>,
    /// Normalizing weight, the logarithm of the number of domains (upstream: `topologyNormalizingWeight`).
    weight: f64,
    max_skew: i32,
}

enum MatchingPodCounts<'c> {
    /// For the hostname key: counted on the node itself, eligible or not.
    PerNode(Option<&'c DomainCounts>),
    PerDomain(EligiblePodCounts<'c>),
}

impl<'c> TopologySpreadScorer<'c> {
    /// `None` if the pod has no soft constraints.
    pub(super) fn new(
        plugin: &'c PodTopologySpread,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        nodes: &[NodeId],
    ) -> Option<TopologySpreadScorer<'c>> {
        let constraints = plugin.constraints(pod, cluster, WhenUnsatisfiable::ScheduleAnyway);
        if constraints.is_empty() {
            return None;
        }
        let needs_all_labels =
            !pod.pod.spread_constraints.is_empty() || !plugin.uses_system_defaults;
        let topologies: Vec<TopologyId> = match needs_all_labels {
            true => constraints.iter().map(|one| one.topology).collect(),
            false => Vec::new(),
        };
        let rated: Vec<NodeId> = nodes
            .iter()
            .copied()
            .filter(|node| {
                let mut topologies = topologies.iter();
                topologies.all(|topology| cluster.topology(*topology).domain(*node).is_some())
            })
            .collect();
        let part = |constraint: ResolvedSpreadConstraint<'c>| {
            let topology = cluster.topology(constraint.topology);
            let (counts, domains) = if &*constraint.rule.topology_key == HOSTNAME {
                (MatchingPodCounts::PerNode(constraint.on_nodes), rated.len())
            } else {
                let eligible =
                    plugin
                        .eligibility
                        .eligible(&constraint, &topologies, &pod.pod, cluster);
                let sums = EligiblePodCounts::new(&constraint, &eligible, topology);
                (
                    MatchingPodCounts::PerDomain(sums),
                    count_domains(&rated, topology),
                )
            };
            ConstraintScore {
                topology,
                counts,
                weight: ((domains + 2) as f64).ln(),
                max_skew: constraint.rule.max_skew,
            }
        };
        Some(TopologySpreadScorer {
            constraints: constraints.into_iter().map(part).collect(),
            needs_all_labels,
        })
    }

    fn is_rated(&self, node: NodeId) -> bool {
        let mut parts = self.constraints.iter();
        !self.needs_all_labels || parts.all(|part| part.topology.domain(node).is_some())
    }
}

/// The number of domains of these nodes; nodes without the label count as one more domain.
fn count_domains(nodes: &[NodeId], topology: &TopologyDomains) -> usize {
    let mut seen = vec![false; topology.domains_bound() + 1];
    let none = topology.domains_bound();
    let mut domains = 0;
    for node in nodes {
        let index = topology.domain(*node).map_or(none, TopologyDomainId::index);
        domains += usize::from(!std::mem::replace(&mut seen[index], true));
    }
    domains
}

impl NodeScorer for TopologySpreadScorer<'_> {
    fn score(&self, node: NodeId) -> i64 {
        if !self.is_rated(node) {
            return 0;
        }
        let mut score = 0.0;
        for part in &self.constraints {
            let Some(domain) = part.topology.domain(node) else {
                continue;
            };
            let count = match &part.counts {
                MatchingPodCounts::PerNode(None) => 0,
                MatchingPodCounts::PerNode(Some(counts)) => {
                    counts.get(TopologyDomainId::from_index(node.index()))
                }
                MatchingPodCounts::PerDomain(sums) => sums.at(domain),
            };
            score += count as f64 * part.weight + f64::from(part.max_skew - 1);
        }
        score.round() as i64
    }

    /// Inverts and scales the scores; excluded nodes get 0.
    fn normalise(&self, nodes: &[NodeId], scores: &mut [i64]) {
        let is_rated: Vec<bool> = nodes.iter().map(|node| self.is_rated(*node)).collect();
        let rated = || {
            let scores = scores.iter().zip(&is_rated);
            scores
                .filter(|(_, is_rated)| **is_rated)
                .map(|(score, _)| *score)
        };
        let min = rated().min().unwrap_or_default();
        let max = rated().max().unwrap_or_default();
        for (score, is_rated) in scores.iter_mut().zip(is_rated) {
            *score = match (is_rated, max) {
                (false, _) => 0,
                (true, 0) => SCORE_MAX,
                (true, max) => SCORE_MAX * (max + min - *score) / max,
            };
        }
    }
}
