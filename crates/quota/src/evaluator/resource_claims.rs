//! Usage of ResourceClaims: their number, and devices by device class (upstream: `claimEvaluator`).
//!
//! Devices also count for the extended resources of their class. That needs the classes and pods, so `NamespaceUsage`
//! adds it (`usage/claim_usage.rs`).

use std::collections::BTreeMap;

use rhumb_api::JsonObject;
use rhumb_api::partial_decode::{BorrowedStr, or_default};
use rhumb_meta::Quantity;
use rhumb_meta::quantity::QuantityFormat;
use serde::Deserialize;

use super::{object_count, pods};
use crate::extended_resources::CLASS_DEVICES_SUFFIX;
use crate::{ExtendedResourceClaim, ExtendedResourceLink, ObjectUsage};

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// Maximum number of devices allocated to a claim.
const DEVICES_MAX: i64 = 32;

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialResourceClaim<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: PartialClaimMetadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: PartialResourceClaimSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialClaimMetadata<'a> {
    #[serde(borrow)]
    name: BorrowedStr<'a>,
    #[serde(borrow)]
    creation_timestamp: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    annotations: PartialClaimAnnotations<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    owner_references: Vec<PartialOwnerReference<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialClaimAnnotations<'a> {
    /// Marks claims that were generated for the extended resources of a pod.
    #[serde(borrow, rename = "resource.kubernetes.io/extended-resource-claim")]
    extended_resource_claim: BorrowedStr<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialOwnerReference<'a> {
    #[serde(borrow)]
    api_version: BorrowedStr<'a>,
    #[serde(borrow)]
    kind: BorrowedStr<'a>,
    #[serde(borrow)]
    name: BorrowedStr<'a>,
    #[serde(borrow)]
    uid: BorrowedStr<'a>,
    #[serde(deserialize_with = "or_default")]
    controller: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialResourceClaimSpec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    devices: PartialDeviceClaim<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialDeviceClaim<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    requests: Vec<PartialDeviceRequest<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialDeviceRequest<'a> {
    #[serde(borrow)]
    exactly: Option<PartialDeviceSubRequest<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    first_available: Vec<PartialDeviceSubRequest<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialDeviceSubRequest<'a> {
    #[serde(borrow)]
    device_class_name: BorrowedStr<'a>,
    #[serde(borrow)]
    allocation_mode: BorrowedStr<'a>,
    #[serde(deserialize_with = "or_default")]
    count: i64,
}

impl PartialDeviceSubRequest<'_> {
    /// Unknown allocation modes count as zero.
    fn devices(&self) -> i64 {
        match &*self.allocation_mode {
            "ExactCount" => self.count,
            "All" => DEVICES_MAX,
            _ => 0,
        }
    }
}

pub(super) fn covers(name: &str) -> bool {
    name == COUNT
        || name.ends_with(CLASS_DEVICES_SUFFIX)
        || pods::is_extended_resource_request(name)
}

pub(super) fn usage(object: &JsonObject) -> ObjectUsage {
    usage_of(&PartialResourceClaim::deserialize(object).unwrap_or_default())
}

pub(super) fn usage_from_json(json: &[u8]) -> Result<ObjectUsage, serde_json::Error> {
    serde_json::from_slice(json).map(|claim| usage_of(&claim))
}

fn usage_of(claim: &PartialResourceClaim<'_>) -> ObjectUsage {
    let mut by_class = BTreeMap::<&str, Quantity>::new();
    for request in &claim.spec.devices.requests {
        for (class, devices) in devices_of(request) {
            let devices = Quantity::new(devices, QuantityFormat::DecimalSi);
            by_class.entry(class).or_default().add(&devices);
        }
    }
    let mut amounts = object_count::one(COUNT);
    for (class, devices) in by_class {
        amounts.set(format!("{class}{CLASS_DEVICES_SUFFIX}"), devices);
    }
    ObjectUsage {
        quantities: amounts,
        extended_resources: extended_resource_link(&claim.metadata),
        ..ObjectUsage::default()
    }
}

fn extended_resource_link(metadata: &PartialClaimMetadata<'_>) -> ExtendedResourceLink {
    if &*metadata.annotations.extended_resource_claim != "true" {
        return ExtendedResourceLink::None;
    }
    let mut owners = metadata.owner_references.iter();
    match owners.find(|owner| owner.controller) {
        Some(pod) if &*pod.kind == "Pod" && &*pod.api_version == "v1" => {
            ExtendedResourceLink::Claim(ExtendedResourceClaim {
                name: (*metadata.name).into(),
                creation_timestamp: (*metadata.creation_timestamp).into(),
                pod_name: (*pod.name).into(),
                pod_uid: (*pod.uid).into(),
            })
        }
        _ => ExtendedResourceLink::None,
    }
}

/// Maximum number of devices of a request, by class: only one of the alternatives is allocated.
fn devices_of<'r>(request: &'r PartialDeviceRequest<'_>) -> BTreeMap<&'r str, i64> {
    let mut maximum = BTreeMap::new();
    for wanted in &request.first_available {
        let devices = wanted.devices();
        if devices > 0 {
            let current = maximum.entry(&*wanted.device_class_name).or_insert(devices);
            *current = devices.max(*current);
        }
    }
    match &request.exactly {
        Some(wanted) if request.first_available.is_empty() => {
            maximum.insert(&wanted.device_class_name, wanted.devices());
        }
        _ => {}
    }
    maximum
}
