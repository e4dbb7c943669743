//! Score: preferred terms of the incoming pod, and preferred and required affinity terms of existing pods that match
//! it.

use super::InterPodAffinity;
use crate::cluster::{
    ClusterState, DomainCounts, IdMap, NodeId, PodInfo, TopologyDomainId, TopologyDomains,
    TopologyId,
};
use crate::plugins::{NodeScorer, SCORE_MAX};

/// Above this number of counts per topology, they are summed up once before nodes are scored.
const UNMERGED_COUNTS_MAX: usize = 6;

/// The scores of the domains of one topology.
struct TopologyScore<'c> {
    topology: &'c TopologyDomains,
    /// Pod counts per domain, each with its weight per pod.
    weighted_counts: Vec<(&'c DomainCounts, i64)>,
    /// The weighted sum, precomputed when there are many counts.
    sum: Option<IdMap<TopologyDomainId, i64>>,
}

pub(super) struct InterPodAffinityScorer<'c> {
    topologies: Vec<TopologyScore<'c>>,
}

impl<'c> InterPodAffinityScorer<'c> {
    /// `None` if all nodes score the same.
    pub(super) fn new(
        plugin: &InterPodAffinity,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Option<InterPodAffinityScorer<'c>> {
        let mut by_topology: IdMap<TopologyId, Vec<(&'c DomainCounts, i64)>> = IdMap::default();
        let mut add = |topology: TopologyId, counts: &'c DomainCounts, weight: i64| {
            if weight != 0 && !counts.is_empty() {
                by_topology
                    .entry(topology)
                    .or_default()
                    .push((counts, weight));
            }
        };
        for (term, weight) in &pod.terms().preferred {
            let slot = cluster.term_counts(*term);
            add(slot.topology, &slot.matching_pods, *weight);
        }
        let has_preferences = !pod.terms().preferred.is_empty();
        if has_preferences || !plugin.ignore_preferred_terms_of_existing_pods {
            let matchers = pod.matched_by().iter();
            for term in matchers.flat_map(|matcher| cluster.terms_using(*matcher)) {
                let slot = cluster.term_counts(*term);
                add(
                    slot.topology,
                    &slot.affinity_owners,
                    plugin.hard_pod_affinity_weight,
                );
                add(slot.topology, &slot.preference_weights, 1);
            }
        }
        let topology_scores: Vec<TopologyScore<'c>> = by_topology
            .into_iter()
            .map(|(topology, weighted)| TopologyScore::new(cluster.topology(topology), weighted))
            .collect();
        (!topology_scores.is_empty()).then_some(InterPodAffinityScorer {
            topologies: topology_scores,
        })
    }
}

impl<'c> TopologyScore<'c> {
    fn new(
        topology: &'c TopologyDomains,
        weighted_counts: Vec<(&'c DomainCounts, i64)>,
    ) -> TopologyScore<'c> {
        let sum = (weighted_counts.len() > UNMERGED_COUNTS_MAX).then(|| {
            let mut sum = IdMap::default();
            for (counts, weight) in &weighted_counts {
                for (domain, amount) in counts.iter() {
                    *sum.entry(domain).or_default() += amount * weight;
                }
            }
            sum
        });
        TopologyScore {
            topology,
            weighted_counts,
            sum,
        }
    }

    fn score_of(&self, node: NodeId) -> i64 {
        let Some(domain) = self.topology.domain(node) else {
            return 0;
        };
        match &self.sum {
            Some(sum) => sum.get(&domain).copied().unwrap_or_default(),
            None => {
                let weighted = self.weighted_counts.iter();
                weighted
                    .map(|(counts, weight)| counts.get(domain) * weight)
                    .sum()
            }
        }
    }
}

impl NodeScorer for InterPodAffinityScorer<'_> {
    fn score(&self, node: NodeId) -> i64 {
        self.topologies
            .iter()
            .map(|topology_score| topology_score.score_of(node))
            .sum()
    }

    /// Scales to 0 for the minimum and [`SCORE_MAX`] for the maximum; all 0 if they are equal.
    fn normalise(&self, _nodes: &[NodeId], scores: &mut [i64]) {
        let (Some(min), Some(max)) = (scores.iter().min(), scores.iter().max()) else {
            return;
        };
        let (min, span) = (*min, *max - *min);
        for score in scores {
            *score = if span > 0 {
                // Floating point, truncated, as upstream.
                (SCORE_MAX as f64 * ((*score - min) as f64 / span as f64)) as i64
            } else {
                0
            };
        }
    }
}
