//! Sums by domain.

use super::ids::{Domain, IdMap};

/// How much there is of something in each domain. What is zero takes no room: most terms are about few domains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    sums: IdMap<Domain, i64>,
}

impl Tally {
    pub fn at(&self, domain: Domain) -> i64 {
        self.sums.get(&domain).copied().unwrap_or_default()
    }

    /// Whether it is zero everywhere.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Domain, i64)> {
        self.sums.iter().map(|(domain, sum)| (*domain, *sum))
    }

    pub(super) fn add(&mut self, domain: Domain, amount: i64) {
        let sum = self.sums.entry(domain).or_default();
        *sum += amount;
        if *sum == 0 {
            self.sums.remove(&domain);
        }
    }
}
