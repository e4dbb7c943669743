//! Usage and reservations summed up once for all quotas with the same scopes.

use std::collections::BTreeSet;

use rhumb_meta::Quantity;

use super::reservations::UsageReservation;
use crate::{ObjectUsage, ResourceName, ResourceQuantities, ScopeAttributes, ScopeRequirement};

/// Quotas of a namespace that have the same scopes, and so count the same objects.
#[derive(Debug)]
pub(super) struct ScopeGroup {
    pub(super) scopes: Vec<ScopeRequirement>,
    /// Has all counted names, also those with zero usage.
    used: ResourceQuantities,
    /// Sum of the reservations.
    reserved: ResourceQuantities,
    /// The lowest limit of any quota for each name: a write within these limits fits into every quota.
    tightest: ResourceQuantities,
    /// Indexes of the resources that any quota of the group limits.
    pub(super) resources: BTreeSet<usize>,
}

impl ScopeGroup {
    pub(super) fn new(scopes: Vec<ScopeRequirement>) -> ScopeGroup {
        ScopeGroup {
            scopes,
            used: ResourceQuantities::default(),
            reserved: ResourceQuantities::default(),
            tightest: ResourceQuantities::default(),
            resources: BTreeSet::new(),
        }
    }

    pub(super) fn set_tightest<'a>(
        &mut self,
        limits: impl Iterator<Item = &'a ResourceQuantities>,
    ) {
        self.tightest = ResourceQuantities::default();
        for (name, limit) in limits.flat_map(ResourceQuantities::iter) {
            if self
                .tightest
                .get(name)
                .is_none_or(|tightest| limit < tightest)
            {
                self.tightest.set(name.clone(), limit.clone());
            }
        }
    }

    pub(super) fn tightest(&self, name: &str) -> Option<&Quantity> {
        self.tightest.get(name)
    }

    pub(super) fn track_names<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            if self.used.get(name).is_none() {
                self.used.set(name.to_owned(), Quantity::ZERO);
                self.reserved.set(name.to_owned(), Quantity::ZERO);
            }
        }
    }

    pub(super) fn tracks(&self, name: &str) -> bool {
        self.used.get(name).is_some()
    }

    pub(super) fn matches(&self, attributes: &ScopeAttributes) -> bool {
        self.scopes.iter().all(|scope| scope.matches(attributes))
    }

    pub(super) fn used(&self, name: &str) -> Option<&Quantity> {
        self.used.get(name)
    }

    pub(super) fn reserved(&self, name: &str) -> Option<&Quantity> {
        self.reserved.get(name)
    }

    pub(super) fn add_usage(&mut self, usage: &ObjectUsage) {
        if self.matches(&usage.scope_attributes) {
            self.used.add_existing(&usage.quantities);
        }
    }

    pub(super) fn subtract_usage(&mut self, usage: &ObjectUsage) {
        if self.matches(&usage.scope_attributes) {
            self.used.subtract_existing(&usage.quantities);
        }
    }

    pub(super) fn add_reservation(&mut self, reservation: &UsageReservation) {
        self.change_reserved(reservation, Quantity::add);
    }

    pub(super) fn remove_reservation(&mut self, reservation: &UsageReservation) {
        self.change_reserved(reservation, Quantity::sub);
    }

    fn change_reserved(
        &mut self,
        reservation: &UsageReservation,
        change: fn(&mut Quantity, &Quantity),
    ) {
        let needs = self.increases(&reservation.new_usage, reservation.old_usage.as_ref());
        for (name, amount) in needs {
            self.reserved
                .change_existing(std::iter::once((name, &amount)), change);
        }
    }

    /// The increases of usage by a write. Decreases do not count until the write is committed.
    pub(super) fn increases<'a>(
        &self,
        usage: &'a ObjectUsage,
        old: Option<&'a ObjectUsage>,
    ) -> impl Iterator<Item = (&'a ResourceName, Quantity)> + use<'a> {
        let is_seen = self.matches(&usage.scope_attributes);
        let old = old.filter(|old| self.matches(&old.scope_attributes));
        usage
            .quantities
            .iter()
            .filter(move |_| is_seen)
            .filter_map(move |(name, amount)| {
                let mut more = amount.clone();
                if let Some(before) = old.and_then(|old| old.quantities.get(name)) {
                    more.sub(before);
                }
                (more.sign() > 0).then_some((name, more))
            })
    }
}
