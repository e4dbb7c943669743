//! Usage of a namespace: the sum over its objects, plus reservations of writes in progress.
//!
//! Objects are set as the cache shows them ([`NamespaceUsage::set_object`]), so the usage corrects itself after any
//! failure or crash. A write in progress is reserved ([`NamespaceUsage::reserve`]) until the cache shows its object or
//! the write has failed. Quotas with the same scopes share one sum (`scope_group.rs`). The usage of claims depends on
//! other objects (`claim_usage.rs`).

mod claim_usage;
mod quota_check;
mod reservations;
mod scope_group;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rhumb_meta::{Quantity, Timestamp};

use crate::{
    DeviceClassMapping, Evaluator, LimitedResource, ObjectUsage, ResourceQuantities, ResourceQuota,
};
use claim_usage::ClaimTable;
use reservations::{ReservationTable, UsageReservation};
use scope_group::ScopeGroup;

pub use quota_check::{DecodableObject, QuotaDenial, QuotaVerdict, UsageRequest};
pub use reservations::ReservationId;

/// Usage of all resources of one namespace that its quotas count.
#[derive(Debug, Default)]
pub struct NamespaceUsage {
    quotas: Vec<ResourceQuota>,
    /// Scope group and resources of each quota, indexed as `quotas`; independent of the limits.
    quota_memberships: Vec<QuotaMembership>,
    groups: Vec<ScopeGroup>,
    resources: Vec<ObjectUsageTable>,
    claims: ClaimTable,
    reservations: ReservationTable,
}

/// The scope group and the resources that a quota counts.
#[derive(Debug)]
struct QuotaMembership {
    /// Index of its scope group.
    group: usize,
    /// Indexes of the resources that it limits.
    resources: Vec<usize>,
}

/// Usage of the objects of one resource.
#[derive(Debug)]
struct ObjectUsageTable {
    evaluator: Evaluator,
    objects: HashMap<Box<str>, ObjectUsage>,
    /// When the usage of an object drops without a change of the object.
    lapses: BTreeSet<(Timestamp, Box<str>)>,
}

impl NamespaceUsage {
    /// A usage without objects. The caller sets the objects of each evaluator's resource, by its index in `evaluators`.
    pub fn new(quotas: Vec<ResourceQuota>, evaluators: Vec<Evaluator>) -> NamespaceUsage {
        let mut groups: Vec<ScopeGroup> = Vec::new();
        let members = quotas.iter().map(|quota| {
            let existing = groups.iter().position(|group| group.scopes == quota.scopes);
            let index = existing.unwrap_or_else(|| {
                groups.push(ScopeGroup::new(quota.scopes.clone()));
                groups.len() - 1
            });
            groups[index].track_names(quota.hard.names());
            let is_limited =
                |evaluator: &Evaluator| quota.hard.names().any(|name| evaluator.covers(name));
            let resources = evaluators.iter().enumerate();
            let resources = resources.filter(|(_, evaluator)| is_limited(evaluator));
            let resources: Vec<usize> = resources.map(|(index, _)| index).collect();
            groups[index].resources.extend(&resources);
            QuotaMembership {
                group: index,
                resources,
            }
        });
        let members = members.collect();
        let resource = |evaluator| ObjectUsageTable {
            evaluator,
            objects: HashMap::new(),
            lapses: BTreeSet::new(),
        };
        let mut namespace_usage = NamespaceUsage {
            quotas,
            quota_memberships: members,
            groups,
            resources: evaluators.into_iter().map(resource).collect(),
            claims: ClaimTable::default(),
            reservations: ReservationTable::default(),
        };
        namespace_usage.update_tightest_limits();
        namespace_usage
    }

    /// Takes over the reservations of the usage that this one replaces.
    #[must_use]
    pub fn with_reservations_of(mut self, before: NamespaceUsage) -> NamespaceUsage {
        self.reservations = before.reservations;
        for group in &mut self.groups {
            self.reservations.add_to_group(group);
        }
        self
    }

    /// Replaces the limits. Names and scopes of the quotas must be unchanged.
    pub fn set_quotas(&mut self, quotas: Vec<ResourceQuota>) {
        self.quotas = quotas;
        self.update_tightest_limits();
    }

    fn update_tightest_limits(&mut self) {
        for (index, group) in self.groups.iter_mut().enumerate() {
            let quotas = self.quotas.iter().zip(&self.quota_memberships);
            let quotas = quotas.filter(|(_, member)| member.group == index);
            group.set_tightest(quotas.map(|(quota, _)| &quota.hard));
        }
    }

    pub fn quotas(&self) -> &[ResourceQuota] {
        &self.quotas
    }

    /// Whether any write in progress has a reservation.
    pub fn has_reservations(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// Whether any reservation is for a new object.
    pub fn awaits_new_objects(&self) -> bool {
        self.reservations.awaits_new_objects()
    }

    /// Releases the reservation of a new object that the cache shows now; the caller is about to set the object.
    pub fn release_new_object(&mut self, uid: &str) {
        if let Some(reservation) = self.reservations.remove_by_uid(uid) {
            self.remove_reserved(&reservation);
        }
    }

    /// Sets the extended resources of device classes, for which claims count.
    pub fn set_device_classes(&mut self, device_classes: &Arc<DeviceClassMapping>) {
        if self.claims.set_device_classes(device_classes) {
            self.update_all_claims();
        }
    }

    /// Sets the current usage of an object, as its evaluator computes it; `None` if it was deleted.
    pub fn set_object(&mut self, resource: usize, name: &str, usage: Option<ObjectUsage>) {
        let Some(table) = self.resources.get(resource) else {
            return;
        };
        let usage = usage.map(ObjectUsage::clamped);
        if table.evaluator.is_for_resource_claims() {
            let pod_uids = self.claims.set(name, usage);
            self.update_claim(resource, name);
            for uid in pod_uids {
                self.update_claims_of_pod(&uid);
            }
            return;
        }
        let pod_uid = |usage: &ObjectUsage| Some(usage.extended_resources.pod()?.uid.clone());
        let old_pod_uid = table.objects.get(name).and_then(pod_uid);
        let new_pod_uid = usage.as_ref().and_then(pod_uid);
        self.replace_usage(resource, name, usage);
        for uid in old_pod_uid.iter().chain(&new_pod_uid) {
            self.update_claims_of_pod(uid);
        }
    }

    /// Computes the usage of a claim again, because what it depends on has changed.
    fn update_claim(&mut self, claims: usize, name: &str) {
        let usage = self.claims.get(name);
        let usage = usage.map(|usage| self.with_extended_resources(usage).into_owned());
        self.replace_usage(claims, name, usage);
    }

    fn update_claims_of_pod(&mut self, pod_uid: &str) {
        let names: Vec<Box<str>> = self.claims.names_of_pod(pod_uid).cloned().collect();
        self.update_claims(&names);
    }

    fn update_all_claims(&mut self) {
        let names: Vec<Box<str>> = self.claims.names().cloned().collect();
        self.update_claims(&names);
    }

    fn update_claims(&mut self, names: &[Box<str>]) {
        let mut tables = self.resources.iter();
        if let Some(claims) = tables.position(|table| table.evaluator.is_for_resource_claims()) {
            names
                .iter()
                .for_each(|name| self.update_claim(claims, name));
        }
    }

    /// The usage of an object with the extended resources that a claim counts for.
    fn with_extended_resources<'u>(&self, usage: &'u ObjectUsage) -> Cow<'u, ObjectUsage> {
        self.claims.with_extended_resources(usage, |pod| {
            let mut tables = self.resources.iter();
            let pods = tables.find(|table| table.evaluator.is_for_pods())?;
            pods.objects.get(pod)
        })
    }

    fn replace_usage(&mut self, resource: usize, name: &str, usage: Option<ObjectUsage>) {
        let Some(resource) = self.resources.get_mut(resource) else {
            return;
        };
        if let Some(old) = resource.objects.remove(name) {
            if let Some(at) = old.lapses_at {
                resource.lapses.remove(&(at, name.into()));
            }
            self.groups
                .iter_mut()
                .for_each(|group| group.subtract_usage(&old));
        }
        let Some(mut usage) = usage else {
            return;
        };
        let is_counted = |name: &str| self.groups.iter().any(|group| group.tracks(name));
        usage.quantities = usage.quantities.filtered(is_counted);
        usage.after_lapse = usage.after_lapse.filtered(is_counted);
        usage.unspecified = Vec::new();
        self.groups
            .iter_mut()
            .for_each(|group| group.add_usage(&usage));
        if let Some(at) = usage.lapses_at {
            resource.lapses.insert((at, name.into()));
        }
        resource.objects.insert(name.into(), usage);
    }

    /// Removes all objects of a resource; they are about to be set again.
    pub fn clear_resource(&mut self, resource: usize) {
        let Some(resource) = self.resources.get_mut(resource) else {
            return;
        };
        for usage in resource.objects.values() {
            self.groups
                .iter_mut()
                .for_each(|group| group.subtract_usage(usage));
        }
        resource.objects.clear();
        resource.lapses.clear();
        if resource.evaluator.is_for_resource_claims() {
            self.claims.clear();
        }
        // Their pods may be gone.
        self.update_all_claims();
    }

    /// Removes the objects of a resource whose names `keep` rejects.
    pub fn retain_objects(&mut self, resource: usize, keep: impl Fn(&str) -> bool) {
        let objects = self
            .resources
            .get(resource)
            .map(|resource| &resource.objects);
        let names = objects.into_iter().flat_map(HashMap::keys);
        let removed: Vec<Box<str>> = names.filter(|name| !keep(name)).cloned().collect();
        for name in removed {
            self.set_object(resource, &name, None);
        }
    }

    /// Applies the passage of time: reduces usages that have lapsed, and drops expired reservations of writes with
    /// unknown outcome.
    pub fn advance_time(&mut self, now: Timestamp) {
        let mut lapsed_pod_uids = Vec::new();
        for resource in &mut self.resources {
            while let Some((at, _)) = resource.lapses.first()
                && *at < now
            {
                let Some((_, name)) = resource.lapses.pop_first() else {
                    break;
                };
                if let Some(usage) = resource.objects.get_mut(&name) {
                    self.groups
                        .iter_mut()
                        .for_each(|group| group.subtract_usage(usage));
                    usage.quantities = std::mem::take(&mut usage.after_lapse);
                    usage.lapses_at = None;
                    if let Some(pod) = usage.extended_resources.pod() {
                        lapsed_pod_uids.push(pod.uid.clone());
                    }
                    self.groups
                        .iter_mut()
                        .for_each(|group| group.add_usage(usage));
                }
            }
        }
        for uid in lapsed_pod_uids {
            self.update_claims_of_pod(&uid);
        }
        for reservation in self.reservations.remove_expired(now) {
            self.remove_reserved(&reservation);
        }
    }

    /// When the next usage lapses.
    pub fn next_lapse(&self) -> Option<Timestamp> {
        let resources = self.resources.iter();
        resources
            .filter_map(|resource| Some(resource.lapses.first()?.0))
            .min()
    }

    /// Checks a write against the quotas, given all usage and reservations.
    pub fn check(&self, request: &UsageRequest<'_>, limited: &[LimitedResource]) -> QuotaVerdict {
        let new_usage = self.with_extended_resources(request.new_usage);
        let old_usage = request.old_usage;
        let old_usage = old_usage.map(|usage| self.with_extended_resources(usage));
        let request = UsageRequest {
            new_usage: &new_usage,
            old_usage: old_usage.as_deref(),
            ..*request
        };
        quota_check::check(self, &request, limited)
    }

    /// Reserves the usage of a write. `uid` is that of a new object, `None` for an update.
    pub fn reserve(
        &mut self,
        usage: ObjectUsage,
        old: Option<ObjectUsage>,
        uid: Option<&str>,
    ) -> ReservationId {
        let resolve = |usage: ObjectUsage| {
            let usage = usage.clamped();
            self.with_extended_resources(&usage).into_owned()
        };
        let reservation = UsageReservation {
            new_usage: resolve(usage),
            old_usage: old.map(resolve),
            uid: uid.map(Into::into),
            expires_at: None,
        };
        self.groups
            .iter_mut()
            .for_each(|group| group.add_reservation(&reservation));
        self.reservations.add(reservation)
    }

    /// Releases a reservation: the write has failed, or its object is set.
    pub fn release(&mut self, id: ReservationId) {
        if let Some(reservation) = self.reservations.remove(id) {
            self.remove_reserved(&reservation);
        }
    }

    /// The outcome of the write is unknown: the reservation is kept until `until`.
    pub fn expire_at(&mut self, id: ReservationId, until: Timestamp) {
        self.reservations.expire_at(id, until);
    }

    fn remove_reserved(&mut self, reservation: &UsageReservation) {
        self.groups
            .iter_mut()
            .for_each(|group| group.remove_reservation(reservation));
    }

    /// Usage of every resource name that a quota limits and an evaluator covers (`status.used`).
    pub fn used(&self, quota: usize) -> ResourceQuantities {
        let (Some(quota), Some(group)) = (
            self.quotas.get(quota),
            self.quota_memberships
                .get(quota)
                .and_then(|member| self.groups.get(member.group)),
        ) else {
            return ResourceQuantities::default();
        };
        let is_measured = |name: &str| {
            self.resources
                .iter()
                .any(|resource| resource.evaluator.covers(name))
        };
        quota
            .hard
            .names()
            .filter(|name| is_measured(name))
            .map(|name| {
                let used = group.used(name).cloned();
                (name.to_owned().into(), used.unwrap_or(Quantity::ZERO))
            })
            .collect()
    }
}
