//! Preferences of the pod that comes and of those that are there.

use super::InterPodAffinity;
use crate::cluster::{Cluster, Domain, IdMap, NodeId, PodSlot, Tally, Topology, TopologyId};
use crate::plugins::{NodeScore, SCORE_MAX};

/// From so many tallies on in one topology, they are added up first.
const EACH_MAX: usize = 6;

/// What all domains of one topology are worth.
struct Worth<'c> {
    topology: &'c Topology,
    /// Each with what one of it is worth.
    tallies: Vec<(&'c Tally, i64)>,
    /// Their sum, where they are many.
    sum: Option<IdMap<Domain, i64>>,
}

pub(super) struct AffinityScore<'c> {
    worths: Vec<Worth<'c>>,
}

impl<'c> AffinityScore<'c> {
    /// `None` if all nodes are worth the same.
    pub(super) fn new(
        plugin: &InterPodAffinity,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Option<AffinityScore<'c>> {
        let mut by_topology: IdMap<TopologyId, Vec<(&'c Tally, i64)>> = IdMap::default();
        let mut add = |topology: TopologyId, tally: &'c Tally, worth: i64| {
            if worth != 0 && !tally.is_empty() {
                by_topology
                    .entry(topology)
                    .or_default()
                    .push((tally, worth));
            }
        };
        for (term, weight) in &pod.terms().preferred {
            let slot = cluster.term(*term);
            add(slot.topology, &slot.picked, *weight);
        }
        let has_preferences = !pod.terms().preferred.is_empty();
        if has_preferences || !plugin.ignore_preferred_terms_of_existing_pods {
            let pickers = pod.picked_by().iter();
            for term in pickers.flat_map(|picker| cluster.terms_of(*picker)) {
                let slot = cluster.term(*term);
                add(
                    slot.topology,
                    &slot.attached,
                    plugin.hard_pod_affinity_weight,
                );
                add(slot.topology, &slot.preferring, 1);
            }
        }
        let worths: Vec<Worth<'c>> = by_topology
            .into_iter()
            .map(|(topology, tallies)| Worth::new(cluster.topology(topology), tallies))
            .collect();
        (!worths.is_empty()).then_some(AffinityScore { worths })
    }
}

impl<'c> Worth<'c> {
    fn new(topology: &'c Topology, tallies: Vec<(&'c Tally, i64)>) -> Worth<'c> {
        let sum = (tallies.len() > EACH_MAX).then(|| {
            let mut sum = IdMap::default();
            for (tally, worth) in &tallies {
                for (domain, amount) in tally.iter() {
                    *sum.entry(domain).or_default() += amount * worth;
                }
            }
            sum
        });
        Worth {
            topology,
            tallies,
            sum,
        }
    }

    fn at(&self, node: NodeId) -> i64 {
        let Some(domain) = self.topology.domain(node) else {
            return 0;
        };
        match &self.sum {
            Some(sum) => sum.get(&domain).copied().unwrap_or_default(),
            None => {
                let tallies = self.tallies.iter();
                tallies.map(|(tally, worth)| tally.at(domain) * worth).sum()
            }
        }
    }
}

impl NodeScore for AffinityScore<'_> {
    fn score(&self, node: NodeId) -> i64 {
        self.worths.iter().map(|worth| worth.at(node)).sum()
    }

    /// The best gets all, the worst nothing; where there is no difference, nobody gets anything.
    fn normalise(&self, _nodes: &[NodeId], scores: &mut [i64]) {
        let (Some(min), Some(max)) = (scores.iter().min(), scores.iter().max()) else {
            return;
        };
        let (min, span) = (*min, *max - *min);
        for score in scores {
            *score = if span > 0 {
                // As upstream: in floating point, rounded down.
                (SCORE_MAX as f64 * ((*score - min) as f64 / span as f64)) as i64
            } else {
                0
            };
        }
    }
}
