//! Counts per topology domain.

use rhumb_selection::IdMap;

use super::ids::TopologyDomainId;

/// A count (or sum of weights) per topology domain. Sparse: domains with zero have no entry, since most terms occur in
/// few domains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainCounts {
    counts: IdMap<TopologyDomainId, i64>,
}

impl DomainCounts {
    pub fn get(&self, domain: TopologyDomainId) -> i64 {
        self.counts.get(&domain).copied().unwrap_or_default()
    }

    /// Whether the count is zero in all domains.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (TopologyDomainId, i64)> {
        self.counts.iter().map(|(domain, sum)| (*domain, *sum))
    }

    pub(super) fn add(&mut self, domain: TopologyDomainId, amount: i64) {
        let sum = self.counts.entry(domain).or_default();
        *sum += amount;
        if *sum == 0 {
            self.counts.remove(&domain);
        }
    }
}
