//! Matching pods per domain, counted on eligible nodes only.

use super::constraints::ResolvedSpreadConstraint;
use super::eligibility::EligibleDomains;
use crate::cluster::{DomainCounts, Id, NodeId, TopologyDomainId, TopologyDomains};

pub(super) enum EligiblePodCounts<'c> {
    Zero,
    /// The cluster's incrementally maintained counts; usable when all labelled nodes are eligible.
    Maintained(&'c DomainCounts),
    /// Counted for this pod, by domain index.
    Computed(Vec<i64>),
}

impl<'c> EligiblePodCounts<'c> {
    pub(super) fn new(
        constraint: &ResolvedSpreadConstraint<'c>,
        eligible: &EligibleDomains,
        topology: &TopologyDomains,
    ) -> EligiblePodCounts<'c> {
        let on_nodes = constraint.on_nodes.filter(|counts| !counts.is_empty());
        let Some(on_nodes) = on_nodes else {
            return EligiblePodCounts::Zero;
        };
        if let Some(kept) = constraint.by_domain
            && eligible.includes_all_labelled
        {
            return EligiblePodCounts::Maintained(kept);
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
        EligiblePodCounts::Computed(sums)
    }

    #[inline]
    pub(super) fn at(&self, domain: TopologyDomainId) -> i64 {
        match self {
            EligiblePodCounts::Zero => 0,
            EligiblePodCounts::Maintained(counts) => counts.get(domain),
            EligiblePodCounts::Computed(sums) => {
                sums.get(domain.index()).copied().unwrap_or_default()
            }
        }
    }

    /// The smallest count of all eligible domains.
    pub(super) fn min(&self, eligible: &EligibleDomains) -> i64 {
        match self {
            EligiblePodCounts::Zero => 0,
            // Domains without an entry have no matching pods.
            EligiblePodCounts::Maintained(counts)
                if counts.iter().len() < eligible.domain_count =>
            {
                0
            }
            EligiblePodCounts::Maintained(counts) => {
                counts.iter().map(|(_, sum)| sum).min().unwrap_or_default()
            }
            EligiblePodCounts::Computed(sums) => {
                let counting = sums.iter().zip(&eligible.has_node).filter(|(_, has)| **has);
                counting.map(|(sum, _)| *sum).min().unwrap_or_default()
            }
        }
    }
}
