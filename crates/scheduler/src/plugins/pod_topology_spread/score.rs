//! Nodes are better where fewer of the pods are that belong together.

use super::constraints::Constraint;
use super::sums::Sums;
use super::{HOSTNAME, PodTopologySpread};
use crate::cluster::{Cluster, Domain, Id, NodeId, PodSlot, Tally, Topology, TopologyId};
use crate::model::WhenUnsatisfiable;
use crate::plugins::{NodeScore, SCORE_MAX};

pub(super) struct SpreadScore<'c> {
    parts: Vec<Part<'c>>,
    /// Whether nodes are left out that lack one of the labels.
    needs_all_labels: bool,
}

/// One constraint.
struct Part<'c> {
    topology: &'c Topology,
    counts: Counts<'c>,
    /// The more domains there are, the more a pod counts in one of them.
    weight: f64,
    max_skew: i32,
}

enum Counts<'c> {
    /// Of each node by itself, whether it counts or not.
    OnNode(Option<&'c Tally>),
    InDomain(Sums<'c>),
}

impl<'c> SpreadScore<'c> {
    /// `None` if it makes no difference where the pod goes.
    pub(super) fn new(
        plugin: &'c PodTopologySpread,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        nodes: &[NodeId],
    ) -> Option<SpreadScore<'c>> {
        let constraints = plugin.constraints(pod, cluster, WhenUnsatisfiable::ScheduleAnyway);
        if constraints.is_empty() {
            return None;
        }
        let needs_all_labels = !pod.facts.spread.is_empty() || !plugin.is_system;
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
        let part = |constraint: Constraint<'c>| {
            let topology = cluster.topology(constraint.topology);
            let (counts, domains) = if &*constraint.rule.topology_key == HOSTNAME {
                (Counts::OnNode(constraint.on_nodes), rated.len())
            } else {
                let eligible = plugin
                    .eligible
                    .ask(&constraint, &topologies, &pod.facts, cluster);
                let sums = Sums::new(&constraint, &eligible, topology);
                (Counts::InDomain(sums), domains_of(&rated, topology))
            };
            Part {
                topology,
                counts,
                weight: ((domains + 2) as f64).ln(),
                max_skew: constraint.rule.max_skew,
            }
        };
        Some(SpreadScore {
            parts: constraints.into_iter().map(part).collect(),
            needs_all_labels,
        })
    }

    fn is_rated(&self, node: NodeId) -> bool {
        let mut parts = self.parts.iter();
        !self.needs_all_labels || parts.all(|part| part.topology.domain(node).is_some())
    }
}

/// How many domains these nodes are in. To have none is one, too.
fn domains_of(nodes: &[NodeId], topology: &Topology) -> usize {
    let mut seen = vec![false; topology.domains_bound() + 1];
    let none = topology.domains_bound();
    let mut domains = 0;
    for node in nodes {
        let index = topology.domain(*node).map_or(none, Domain::index);
        domains += usize::from(!std::mem::replace(&mut seen[index], true));
    }
    domains
}

impl NodeScore for SpreadScore<'_> {
    fn score(&self, node: NodeId) -> i64 {
        if !self.is_rated(node) {
            return 0;
        }
        let mut score = 0.0;
        for part in &self.parts {
            let Some(domain) = part.topology.domain(node) else {
                continue;
            };
            let count = match &part.counts {
                Counts::OnNode(None) => 0,
                Counts::OnNode(Some(tally)) => tally.at(Domain::from_index(node.index())),
                Counts::InDomain(sums) => sums.at(domain),
            };
            score += count as f64 * part.weight + f64::from(part.max_skew - 1);
        }
        score.round() as i64
    }

    /// The fewer the better; nodes that are left out get nothing.
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
