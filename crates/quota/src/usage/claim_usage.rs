//! Usage of claims in terms of extended resources (upstream: `claimEvaluator.addExtendedResourceQuota`).
//!
//! Devices of a class also count for the extended resources of the class, less what the pod counts that the claim was
//! generated for. So the usage of a claim depends on device classes, its pod and other claims of this pod.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::extended_resources::{
    CLASS_DEVICES_SUFFIX, DeviceClassMapping, ExtendedResourceClaim, IMPLICIT_RESOURCE_PREFIX,
    REQUESTS_PREFIX,
};
use crate::{ObjectUsage, ResourceQuantities};

/// The claims of a namespace, as their evaluator counts them.
#[derive(Debug, Default)]
pub(super) struct ClaimTable {
    device_classes: Arc<DeviceClassMapping>,
    by_name: HashMap<Box<str>, ObjectUsage>,
    /// Names of the claims that were generated for a pod, by its UID.
    by_pod_uid: HashMap<Box<str>, BTreeSet<Box<str>>>,
}

impl ClaimTable {
    /// Returns whether the mapping has changed.
    pub(super) fn set_device_classes(&mut self, device_classes: &Arc<DeviceClassMapping>) -> bool {
        let is_changed = self.device_classes != *device_classes;
        self.device_classes = Arc::clone(device_classes);
        is_changed
    }

    pub(super) fn get(&self, name: &str) -> Option<&ObjectUsage> {
        self.by_name.get(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Box<str>> {
        self.by_name.keys()
    }

    pub(super) fn names_of_pod(&self, pod_uid: &str) -> impl Iterator<Item = &Box<str>> {
        self.by_pod_uid.get(pod_uid).into_iter().flatten()
    }

    /// Returns the UIDs of the pods that the claim was or is generated for.
    pub(super) fn set(&mut self, name: &str, usage: Option<ObjectUsage>) -> Vec<Box<str>> {
        let mut pod_uids = Vec::new();
        if let Some(old) = self.by_name.remove(name)
            && let Some(claim) = old.extended_resources.claim()
            && let Some(names) = self.by_pod_uid.get_mut(&claim.pod_uid)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_pod_uid.remove(&claim.pod_uid);
            }
            pod_uids.push(claim.pod_uid.clone());
        }
        let Some(usage) = usage else {
            return pod_uids;
        };
        if let Some(claim) = usage.extended_resources.claim() {
            let uid = &claim.pod_uid;
            let names = self.by_pod_uid.entry(uid.clone()).or_default();
            names.insert(name.into());
            if !pod_uids.contains(uid) {
                pod_uids.push(uid.clone());
            }
        }
        self.by_name.insert(name.into(), usage);
        pod_uids
    }

    pub(super) fn clear(&mut self) {
        self.by_name.clear();
        self.by_pod_uid.clear();
    }

    /// Adds the extended resources of the requested devices to the usage of a claim. `find_pod` returns the usage of a
    /// pod by name.
    pub(super) fn with_extended_resources<'u, 'p>(
        &self,
        usage: &'u ObjectUsage,
        find_pod: impl FnOnce(&str) -> Option<&'p ObjectUsage>,
    ) -> Cow<'u, ObjectUsage> {
        let devices = self.extended_resources(&usage.quantities);
        if devices.is_empty() {
            return Cow::Borrowed(usage);
        }
        let claim = usage.extended_resources.claim();
        let pod = claim.and_then(|claim| {
            let pod = find_pod(&claim.pod_name)?;
            self.is_claim_of_pod(claim, pod).then_some(pod)
        });
        let mut resolved = usage.clone();
        for (name, amount) in devices.iter() {
            let mut amount = amount.clone();
            if let Some(counted) = pod.and_then(|pod| pod.quantities.get(name)) {
                amount.sub(counted);
            }
            if amount.sign() > 0 {
                resolved.quantities.set(name.clone(), amount);
            }
        }
        Cow::Owned(resolved)
    }

    /// The quota names of extended resources that count the devices of a claim.
    fn extended_resources(&self, quantities: &ResourceQuantities) -> ResourceQuantities {
        let mut resources = ResourceQuantities::default();
        for (name, devices) in quantities.iter() {
            let class = name.strip_suffix(CLASS_DEVICES_SUFFIX);
            let Some(class) = class.filter(|class| !class.is_empty()) else {
                continue;
            };
            let implicit = format!("{REQUESTS_PREFIX}{IMPLICIT_RESOURCE_PREFIX}{class}");
            resources.set(implicit, devices.clone());
            if let Some(resource) = self.device_classes.extended_resource(class) {
                // Several classes may have one resource.
                let name = format!("{REQUESTS_PREFIX}{resource}");
                let mut sum = resources.get(&name).cloned().unwrap_or_default();
                sum.add(devices);
                resources.set(name, sum);
            }
        }
        resources
    }

    /// Whether the pod is the one that the claim was generated for, and names it or has no earlier claim.
    fn is_claim_of_pod(&self, claim: &ExtendedResourceClaim, pod: &ObjectUsage) -> bool {
        let Some(pod) = pod.extended_resources.pod() else {
            return false;
        };
        if pod.uid != claim.pod_uid {
            return false;
        }
        if !pod.claim_name.is_empty() {
            return pod.claim_name == claim.name;
        }
        let order =
            |claim: &ExtendedResourceClaim| (claim.creation_timestamp.clone(), claim.name.clone());
        self.names_of_pod(&claim.pod_uid)
            .filter_map(|name| self.get(name)?.extended_resources.claim())
            .all(|other| order(other) >= order(claim))
    }
}
