//! The usage of a namespace as its quotas count it, and the status of each quota that follows from it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use kube::ResourceExt;
use kube::api::DynamicObject;
use rhumb_api::JsonObject;
use rhumb_client::informer::Event;
use rhumb_meta::Timestamp;
use rhumb_quota::{
    DeviceClassMapping, Evaluator, NamespaceUsage, ResourceQuota as ParsedQuota, updated_status,
};
use serde::Serialize;
use serde_json::Value;

use super::Quotas;

/// Usage of one namespace.
pub(super) struct TrackedUsage {
    quotas: Vec<ParsedQuota>,
    usage: NamespaceUsage,
    evaluators: Vec<Evaluator>,
    /// Whether each resource has been listed. Before that, nothing is known about the usage.
    are_listed: Vec<bool>,
    /// Whether the usage depends on device classes.
    uses_device_classes: bool,
    /// Whether the device classes have been set, if the usage depends on them.
    has_device_classes: bool,
}

impl TrackedUsage {
    /// The evaluators are those that [`counts`] for the quotas; their order is the index of each resource.
    pub(super) fn new(quotas: &Quotas, evaluators: Vec<Evaluator>) -> TrackedUsage {
        let quotas = parse(quotas);
        let uses_device_classes = uses_device_classes(&quotas, &evaluators);
        TrackedUsage {
            usage: NamespaceUsage::new(quotas.clone(), evaluators.clone()),
            are_listed: vec![false; evaluators.len()],
            quotas,
            evaluators,
            uses_device_classes,
            has_device_classes: !uses_device_classes,
        }
    }

    /// Whether [`TrackedUsage::set_device_classes`] must be called before the usage is complete, and when they change.
    pub(super) fn uses_device_classes(&self) -> bool {
        self.uses_device_classes
    }

    pub(super) fn set_device_classes(&mut self, device_classes: &Arc<DeviceClassMapping>) {
        self.usage.set_device_classes(device_classes);
        self.has_device_classes = true;
    }

    /// Takes over the quotas. Returns false if they count other names or scopes than before, so that the usage has to be
    /// tracked anew.
    pub(super) fn set_quotas(&mut self, quotas: &Quotas) -> bool {
        let quotas = parse(quotas);
        let mut pairs = quotas.iter().zip(&self.quotas);
        let is_same = quotas.len() == self.quotas.len()
            && pairs.all(|(new, old)| new.name == old.name && new.tracks_same_as(old));
        if is_same {
            self.usage.set_quotas(quotas.clone());
            self.quotas = quotas;
        }
        is_same
    }

    pub(super) fn handle_event(&mut self, resource: usize, event: Event<DynamicObject, String>) {
        match event {
            Event::Applied(object) => {
                let name = object.name_any();
                let usage = to_json(&object)
                    .zip(self.evaluators.get(resource))
                    .map(|(object, evaluator)| evaluator.usage(&object));
                self.usage.set_object(resource, &name, usage);
            }
            Event::Deleted(name) => self.usage.set_object(resource, &name, None),
            Event::Replaced(names) => {
                self.usage
                    .retain_objects(resource, |name| names.contains(name));
                if let Some(is_listed) = self.are_listed.get_mut(resource) {
                    *is_listed = true;
                }
            }
        }
    }

    /// Whether all that the quotas count has been listed, and the device classes if the usage depends on them.
    pub(super) fn is_complete(&self) -> bool {
        self.has_device_classes && self.are_listed.iter().all(|&is_listed| is_listed)
    }

    /// Whether a quota limits a name that no served resource counts.
    pub(super) fn has_unknown_names(&self) -> bool {
        let mut names = self.quotas.iter().flat_map(|quota| quota.hard.names());
        names.any(|name| {
            !self
                .evaluators
                .iter()
                .any(|evaluator| evaluator.covers(name))
        })
    }

    /// Applies the passage of time. Returns when the usage drops next without a change of an object.
    pub(super) fn advance_time(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.usage.advance_time(now);
        self.usage.next_lapse()
    }

    /// The quotas whose status differs, each with the status that it should have.
    pub(super) fn stale(&self, quotas: &Quotas) -> Vec<ResourceQuota> {
        let index = |name: &str| self.quotas.iter().position(|quota| *quota.name == *name);
        let stale = quotas.iter().filter_map(|(name, quota)| {
            let used = self.usage.used(index(name)?);
            let status = updated_status(&to_json(quota)?, &used)?;
            let status: ResourceQuotaStatus = serde_json::from_value(status).ok()?;
            Some(ResourceQuota {
                status: Some(status),
                ..quota.clone()
            })
        });
        stale.collect()
    }
}

/// Whether a quota limits something that the evaluator computes.
pub(super) fn counts(quotas: &Quotas, evaluator: &Evaluator) -> bool {
    let mut hard = quotas
        .values()
        .filter_map(|quota| quota.spec.as_ref()?.hard.as_ref());
    hard.any(|hard| hard.keys().any(|name| evaluator.covers(name)))
}

/// Whether a quota limits something that an evaluator computes from device classes.
fn uses_device_classes(quotas: &[ParsedQuota], evaluators: &[Evaluator]) -> bool {
    let mut names = quotas.iter().flat_map(|quota| quota.hard.names());
    names.any(|name| {
        evaluators
            .iter()
            .any(|evaluator| evaluator.uses_device_classes(name))
    })
}

fn parse(quotas: &Quotas) -> Vec<ParsedQuota> {
    let quotas = quotas.values().filter_map(to_json);
    quotas.map(|quota| ParsedQuota::parse(&quota)).collect()
}

fn to_json(object: &impl Serialize) -> Option<JsonObject> {
    match serde_json::to_value(object) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}
