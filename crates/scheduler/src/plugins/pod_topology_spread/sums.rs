//! How many pods there are in each domain, on nodes that count.

use super::constraints::Constraint;
use super::eligible::Eligible;
use crate::cluster::{Domain, Id, NodeId, Tally, Topology};

pub(super) enum Sums<'c> {
    Nobody,
    /// As the cluster keeps them.
    Kept(&'c Tally),
    /// Added up for this pod, by the numbers of domains.
    Added(Vec<i64>),
}

impl<'c> Sums<'c> {
    pub(super) fn new(
        constraint: &Constraint<'c>,
        eligible: &Eligible,
        topology: &Topology,
    ) -> Sums<'c> {
        let on_nodes = constraint.on_nodes.filter(|tally| !tally.is_empty());
        let Some(on_nodes) = on_nodes else {
            return Sums::Nobody;
        };
        if let Some(kept) = constraint.by_domain
            && eligible.is_all
        {
            return Sums::Kept(kept);
        }
        let mut sums = vec![0; topology.domains_bound()];
        for (node, amount) in on_nodes.iter() {
            let node = NodeId::from_index(node.index());
            if let Some(domain) = topology.domain(node)
                && eligible.nodes.contains(node)
            {
                sums[domain.index()] += amount;
            }
        }
        Sums::Added(sums)
    }

    #[inline]
    pub(super) fn at(&self, domain: Domain) -> i64 {
        match self {
            Sums::Nobody => 0,
            Sums::Kept(tally) => tally.at(domain),
            Sums::Added(sums) => sums.get(domain.index()).copied().unwrap_or_default(),
        }
    }

    /// The smallest of all domains that count.
    pub(super) fn min(&self, eligible: &Eligible) -> i64 {
        match self {
            Sums::Nobody => 0,
            // What is not among them is zero.
            Sums::Kept(tally) if tally.iter().len() < eligible.domains => 0,
            Sums::Kept(tally) => tally.iter().map(|(_, sum)| sum).min().unwrap_or_default(),
            Sums::Added(sums) => {
                let counting = sums.iter().zip(&eligible.has).filter(|(_, has)| **has);
                counting.map(|(sum, _)| *sum).min().unwrap_or_default()
            }
        }
    }
}
