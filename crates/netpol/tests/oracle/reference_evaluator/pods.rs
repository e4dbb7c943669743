//! Attributes of pods, and which pod owns an address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::{list, text};
use crate::event_script::ObjectStore;

pub(crate) fn is_live(pod: &Value) -> bool {
    !["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]))
}

pub(crate) fn is_host(pod: &Value) -> bool {
    pod["spec"]["hostNetwork"] == true
}

pub(crate) fn node_of(pod: &Value) -> &str {
    text(&pod["spec"]["nodeName"])
}

pub(crate) fn addresses(pod: &Value) -> Vec<IpAddr> {
    let status = &pod["status"];
    let mut texts: Vec<&str> = list(&status["podIPs"])
        .iter()
        .map(|one| text(&one["ip"]))
        .collect();
    if texts.is_empty() {
        texts.push(text(&status["podIP"]));
    }
    read(&texts)
}

pub(crate) fn host_addresses(pod: &Value) -> Vec<IpAddr> {
    let status = &pod["status"];
    let mut texts: Vec<&str> = list(&status["hostIPs"])
        .iter()
        .map(|one| text(&one["ip"]))
        .collect();
    texts.push(text(&status["hostIP"]));
    read(&texts)
}

fn read(texts: &[&str]) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Of several pods with the same address, the greatest in this order owns it.
fn rank(pod: &Value) -> (bool, &str, &str) {
    let metadata = &pod["metadata"];
    (
        metadata["deletionTimestamp"].is_null(),
        text(&metadata["creationTimestamp"]),
        text(&metadata["uid"]),
    )
}

pub(super) fn owners(store: &ObjectStore) -> BTreeMap<IpAddr, &Value> {
    let mut owners: BTreeMap<IpAddr, &Value> = BTreeMap::new();
    for pod in store
        .pods
        .values()
        .filter(|pod| is_live(pod) && !is_host(pod))
    {
        for address in addresses(pod) {
            let owner = owners.entry(address).or_insert(pod);
            if rank(pod) > rank(owner) {
                *owner = pod;
            }
        }
    }
    owners
}

/// Whether an address that no pod owns belongs to the pod's node.
pub(super) fn is_node_of(store: &ObjectStore, pod: &Value, address: IpAddr) -> bool {
    let exists = |other: &Value| {
        is_live(other) && !node_of(other).is_empty() && node_of(other) == node_of(pod)
    };
    let reports_address = |other: &Value| {
        host_addresses(other).contains(&address)
            || (is_host(other) && addresses(other).contains(&address))
    };
    host_addresses(pod).contains(&address)
        || store
            .pods
            .values()
            .any(|other| exists(other) && reports_address(other))
}
