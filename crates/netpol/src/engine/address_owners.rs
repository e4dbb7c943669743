//! Maps IP addresses to the pods that own them, and nodes to their addresses.

use std::collections::hash_map::Entry;
use std::net::IpAddr;

use rhumb_selection::{IdMap, InternedString, UntrustedKeyMap};

use super::ids::PodId;
use super::pod_table::{PodAttributes, PodTable};

/// The pods that claim each address. The owner is determined by the pods' attributes alone, not by the order of events.
#[derive(Debug, Default)]
pub(crate) struct AddressOwners {
    claims: UntrustedKeyMap<IpAddr, AddressClaims>,
}

/// The owner of an address, and the other pods that claim it.
#[derive(Debug)]
struct AddressClaims {
    owner: PodId,
    others: Vec<PodId>,
}

impl AddressOwners {
    pub(crate) fn owner_of(&self, address: IpAddr) -> Option<PodId> {
        self.claims.get(&address).map(|claims| claims.owner)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// All owned addresses from `first` to `last`, inclusive.
    pub(crate) fn addresses_in_range(
        &self,
        first: IpAddr,
        last: IpAddr,
    ) -> impl Iterator<Item = IpAddr> {
        let all = self.claims.keys().copied();
        all.filter(move |address| first <= *address && *address <= last)
    }

    /// Returns the previous owner.
    pub(crate) fn claim(&mut self, address: IpAddr, pod: PodId, pods: &PodTable) -> Option<PodId> {
        let claims = match self.claims.entry(address) {
            Entry::Occupied(claims) => claims.into_mut(),
            Entry::Vacant(free) => {
                free.insert(AddressClaims {
                    owner: pod,
                    others: Vec::new(),
                });
                return None;
            }
        };
        let before = claims.owner;
        if pods.outranks(pod, before) {
            claims.others.push(before);
            claims.owner = pod;
        } else {
            claims.others.push(pod);
        }
        Some(before)
    }

    /// Returns the previous owner.
    pub(crate) fn release(
        &mut self,
        address: IpAddr,
        pod: PodId,
        pods: &PodTable,
    ) -> Option<PodId> {
        let claims = self.claims.get_mut(&address)?;
        let before = claims.owner;
        if before != pod {
            claims.others.retain(|other| *other != pod);
            return Some(before);
        }
        let mut next_owner = 0;
        for at in 1..claims.others.len() {
            if pods.outranks(claims.others[at], claims.others[next_owner]) {
                next_owner = at;
            }
        }
        if claims.others.is_empty() {
            self.claims.remove(&address);
        } else {
            claims.owner = claims.others.swap_remove(next_owner);
        }
        Some(before)
    }
}

/// The addresses of each node, collected from the status of its pods, with the number of pods that report each.
#[derive(Debug, Default)]
pub(crate) struct NodeAddresses {
    by_name: IdMap<InternedString, UntrustedKeyMap<IpAddr, usize>>,
}

impl NodeAddresses {
    pub(crate) fn insert(&mut self, pod: &PodAttributes) {
        let Some(node) = &pod.node else {
            return;
        };
        for address in reported_node_addresses(pod) {
            let addresses = match self.by_name.get_mut(node) {
                Some(addresses) => addresses,
                None => self.by_name.entry(node.clone()).or_default(),
            };
            *addresses.entry(address).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, pod: &PodAttributes) {
        let Some(node) = &pod.node else {
            return;
        };
        let Some(addresses) = self.by_name.get_mut(node) else {
            return;
        };
        for address in reported_node_addresses(pod) {
            let Some(count) = addresses.get_mut(&address) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                addresses.remove(&address);
            }
        }
        if addresses.is_empty() {
            self.by_name.remove(node);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether an address that no pod owns belongs to the pod's node.
    pub(crate) fn is_own_node(&self, pod: &PodAttributes, address: IpAddr) -> bool {
        let of_node = || self.by_name.get(pod.node.as_ref()?)?.get(&address);
        pod.host_addresses.contains(&address) || of_node().is_some()
    }
}

/// The node addresses that a pod reports: its host IPs, and its own addresses if it is in the host network.
fn reported_node_addresses(pod: &PodAttributes) -> impl Iterator<Item = IpAddr> {
    let own = pod.is_host_network.then_some(&pod.addresses);
    let own = own.into_iter().flatten();
    pod.host_addresses.iter().chain(own).copied()
}
