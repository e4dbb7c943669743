//! Devices that are requested as extended resources (KEP-5004): the names that device classes give them, and the claims
//! that are generated for pods (upstream: `extendedresourcecache`, `claimEvaluator.getVerifiedPodUsage`).

use std::collections::BTreeMap;

use rhumb_api::JsonObject;
use serde_json::Value;

/// Suffix of a quota name, after the name of a device class: devices that claims request.
pub(crate) const CLASS_DEVICES_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";
/// Prefix of an extended resource, before the name of a device class. Every class has this resource.
pub(crate) const IMPLICIT_RESOURCE_PREFIX: &str = "deviceclass.resource.kubernetes.io/";
/// Prefix of quota names of requested resources.
pub(crate) const REQUESTS_PREFIX: &str = "requests.";

/// The extended resources that device classes name explicitly (`spec.extendedResourceName`), by class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceClassMapping(BTreeMap<Box<str>, Box<str>>);

impl DeviceClassMapping {
    /// Adds a device class, unless it names no extended resource.
    pub fn add(&mut self, class: &JsonObject) {
        let text = |field: &str, name: &str| {
            let text = class.get(field).and_then(|field| field.get(name));
            text.and_then(Value::as_str).filter(|text| !text.is_empty())
        };
        let name = text("metadata", "name");
        let resource = text("spec", "extendedResourceName");
        if let (Some(name), Some(resource)) = (name, resource) {
            self.0.insert(name.into(), resource.into());
        }
    }

    /// Sets the extended resource that a device class names; `None` if it names none or was deleted.
    pub fn set(&mut self, class: &str, extended_resource: Option<&str>) {
        match extended_resource.filter(|resource| !resource.is_empty()) {
            Some(resource) => drop(self.0.insert(class.into(), resource.into())),
            None => drop(self.0.remove(class)),
        }
    }

    /// Removes the device classes whose names `keep` rejects.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|class, _| keep(class));
    }

    pub(crate) fn extended_resource(&self, class: &str) -> Option<&str> {
        self.0.get(class).map(|resource| &**resource)
    }
}

/// What relates a pod to the claim that is generated for its extended resources. Devices that the pod counts are not
/// counted again for the claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ExtendedResourceLink {
    #[default]
    None,
    /// A pod that requests extended resources.
    Pod(ExtendedResourcePod),
    /// A claim that was generated for a pod.
    Claim(ExtendedResourceClaim),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedResourcePod {
    pub uid: Box<str>,
    /// Name of its claim; empty as long as its status does not name one.
    pub claim_name: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedResourceClaim {
    pub name: Box<str>,
    /// In RFC 3339, so that texts compare as times.
    pub creation_timestamp: Box<str>,
    pub pod_name: Box<str>,
    pub pod_uid: Box<str>,
}

impl ExtendedResourceLink {
    pub(crate) fn pod(&self) -> Option<&ExtendedResourcePod> {
        match self {
            ExtendedResourceLink::Pod(pod) => Some(pod),
            _ => None,
        }
    }

    pub(crate) fn claim(&self) -> Option<&ExtendedResourceClaim> {
        match self {
            ExtendedResourceLink::Claim(claim) => Some(claim),
            _ => None,
        }
    }
}
