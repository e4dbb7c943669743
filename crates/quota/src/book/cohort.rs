//! The sum of what objects use, for all quotas that look at the same ones.

use std::collections::BTreeSet;

use rhumb_meta::Quantity;

use super::holds::Held;
use crate::{Amounts, Charge, Name, Requirement, Traits};

#[derive(Debug)]
pub(super) struct Cohort {
    pub(super) scopes: Vec<Requirement>,
    /// Has all names that are counted, also those of which nothing is used.
    used: Amounts,
    /// What is being written at the moment.
    held: Amounts,
    /// Of each name the least that a quota allows: what fits into all of these fits into every quota.
    tightest: Amounts,
    /// The places of the sheets that some quota limits something of.
    pub(super) sheets: BTreeSet<usize>,
}

impl Cohort {
    pub(super) fn new(scopes: Vec<Requirement>) -> Cohort {
        Cohort {
            scopes,
            used: Amounts::default(),
            held: Amounts::default(),
            tightest: Amounts::default(),
            sheets: BTreeSet::new(),
        }
    }

    pub(super) fn set_tightest<'a>(&mut self, limits: impl Iterator<Item = &'a Amounts>) {
        self.tightest = Amounts::default();
        for (name, limit) in limits.flat_map(Amounts::iter) {
            if self.tightest.get(name).is_none_or(|least| limit < least) {
                self.tightest.set(name.clone(), limit.clone());
            }
        }
    }

    pub(super) fn tightest(&self, name: &str) -> Option<&Quantity> {
        self.tightest.get(name)
    }

    pub(super) fn count<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            if self.used.get(name).is_none() {
                self.used.set(name.to_owned(), Quantity::ZERO);
                self.held.set(name.to_owned(), Quantity::ZERO);
            }
        }
    }

    pub(super) fn counts(&self, name: &str) -> bool {
        self.used.get(name).is_some()
    }

    pub(super) fn looks_at(&self, traits: &Traits) -> bool {
        self.scopes.iter().all(|scope| scope.matches(traits))
    }

    pub(super) fn used(&self, name: &str) -> Option<&Quantity> {
        self.used.get(name)
    }

    pub(super) fn held(&self, name: &str) -> Option<&Quantity> {
        self.held.get(name)
    }

    pub(super) fn give(&mut self, charge: &Charge) {
        if self.looks_at(&charge.traits) {
            self.used.add_known(&charge.amounts);
        }
    }

    pub(super) fn take(&mut self, charge: &Charge) {
        if self.looks_at(&charge.traits) {
            self.used.sub_known(&charge.amounts);
        }
    }

    pub(super) fn hold(&mut self, held: &Held) {
        self.change_held(held, Quantity::add);
    }

    pub(super) fn unhold(&mut self, held: &Held) {
        self.change_held(held, Quantity::sub);
    }

    fn change_held(&mut self, held: &Held, change: fn(&mut Quantity, &Quantity)) {
        let needs = self.needs(&held.charge, held.old.as_ref());
        for (name, amount) in needs {
            self.held
                .change_known(std::iter::once((name, &amount)), change);
        }
    }

    /// What a write adds here, nothing that becomes less: what it frees is free when it has happened.
    pub(super) fn needs<'a>(
        &self,
        charge: &'a Charge,
        old: Option<&'a Charge>,
    ) -> impl Iterator<Item = (&'a Name, Quantity)> + use<'a> {
        let is_seen = self.looks_at(&charge.traits);
        let old = old.filter(|old| self.looks_at(&old.traits));
        charge
            .amounts
            .iter()
            .filter(move |_| is_seen)
            .filter_map(move |(name, amount)| {
                let mut more = amount.clone();
                if let Some(before) = old.and_then(|old| old.amounts.get(name)) {
                    more.sub(before);
                }
                (more.sign() > 0).then_some((name, more))
            })
    }
}
