//! What claims for devices count for: themselves, and devices by their class.
//!
//! A class may also have the name of an extended resource, and a claim may have been made for a pod that asks for
//! it by that name. Telling what such a claim counts for beyond that pod needs the class and the pod, which are not
//! here: claims count for devices of their classes, pods for extended resources.

use std::collections::BTreeMap;

use rhumb_api::Object;
use rhumb_api::partial::{Text, or_default};
use rhumb_meta::Quantity;
use rhumb_meta::quantity::Format;
use serde::Deserialize;

use super::counts;
use crate::Charge;

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// Follows the name of a device class.
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The most devices that a claim can be given.
const DEVICES_MAX: i64 = 32;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Claim<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    devices: Devices<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Devices<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    requests: Vec<Request<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    exactly: Option<Wanted<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    first_available: Vec<Wanted<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Wanted<'a> {
    #[serde(borrow)]
    device_class_name: Text<'a>,
    #[serde(borrow)]
    allocation_mode: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    count: i64,
}

impl Wanted<'_> {
    /// Modes of the future count for nothing.
    fn devices(&self) -> i64 {
        match &*self.allocation_mode {
            "ExactCount" => self.count,
            "All" => DEVICES_MAX,
            _ => 0,
        }
    }
}

pub(super) fn covers(name: &str) -> bool {
    name == COUNT || name.ends_with(OF_CLASS)
}

pub(super) fn measure(object: &Object) -> Charge {
    charge(&Claim::deserialize(object).unwrap_or_default())
}

pub(super) fn measure_json(json: &[u8]) -> Result<Charge, serde_json::Error> {
    serde_json::from_slice(json).map(|claim| charge(&claim))
}

fn charge(claim: &Claim<'_>) -> Charge {
    let mut by_class = BTreeMap::<&str, Quantity>::new();
    for request in &claim.spec.devices.requests {
        for (class, devices) in devices_of(request) {
            let devices = Quantity::new(devices, Format::DecimalSi);
            by_class.entry(class).or_default().add(&devices);
        }
    }
    let mut amounts = counts::one(COUNT);
    for (class, devices) in by_class {
        amounts.set(format!("{class}{OF_CLASS}"), devices);
    }
    Charge {
        amounts,
        ..Charge::default()
    }
}

/// The most that a request can come to, by class: of alternatives, only one is taken.
fn devices_of<'r>(request: &'r Request<'_>) -> BTreeMap<&'r str, i64> {
    let mut most = BTreeMap::new();
    for wanted in &request.first_available {
        let devices = wanted.devices();
        if devices > 0 {
            let known = most.entry(&*wanted.device_class_name).or_insert(devices);
            *known = devices.max(*known);
        }
    }
    match &request.exactly {
        Some(wanted) if request.first_available.is_empty() => {
            most.insert(&wanted.device_class_name, wanted.devices());
        }
        _ => {}
    }
    most
}
