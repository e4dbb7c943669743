//! Which pods count, and whose an address is.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::{list, text};
use crate::script::World;

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

/// Of several pods with one address, the one that comes last in this order has it.
fn rank(pod: &Value) -> (bool, &str, &str) {
    let metadata = &pod["metadata"];
    (
        metadata["deletionTimestamp"].is_null(),
        text(&metadata["creationTimestamp"]),
        text(&metadata["uid"]),
    )
}

pub(super) fn owners(world: &World) -> BTreeMap<IpAddr, &Value> {
    let mut owners: BTreeMap<IpAddr, &Value> = BTreeMap::new();
    for pod in world
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

/// Whether an address that no pod has is one of a pod's node.
pub(super) fn is_node_of(world: &World, pod: &Value, address: IpAddr) -> bool {
    let is_there = |other: &Value| {
        is_live(other) && !node_of(other).is_empty() && node_of(other) == node_of(pod)
    };
    let tells = |other: &Value| {
        host_addresses(other).contains(&address)
            || (is_host(other) && addresses(other).contains(&address))
    };
    host_addresses(pod).contains(&address)
        || world
            .pods
            .values()
            .any(|other| is_there(other) && tells(other))
}
