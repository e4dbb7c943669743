//! Who has an address: one pod, or a node.

use std::collections::hash_map::Entry;
use std::net::IpAddr;

use super::hashing::{IdMap, WordMap};
use super::pods::{Facts, Pods};
use super::slots::PodId;
use super::text::Text;

/// The pods that claim each address. Who of them has it follows from the pods alone, whichever was seen first.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    claims: WordMap<IpAddr, Claims>,
}

#[derive(Debug)]
struct Claims {
    owner: PodId,
    others: Vec<PodId>,
}

impl Owners {
    pub(crate) fn of(&self, address: IpAddr) -> Option<PodId> {
        self.claims.get(&address).map(|claims| claims.owner)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// The addresses from the first to the last that pods have.
    pub(crate) fn within(&self, first: IpAddr, last: IpAddr) -> impl Iterator<Item = IpAddr> {
        let all = self.claims.keys().copied();
        all.filter(move |address| first <= *address && *address <= last)
    }

    /// Tells who had it before.
    pub(crate) fn claim(&mut self, address: IpAddr, pod: PodId, pods: &Pods) -> Option<PodId> {
        let claims = match self.claims.entry(address) {
            Entry::Occupied(claims) => claims.into_mut(),
            Entry::Vacant(free) => {
                free.insert(Claims {
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

    /// Tells who had it before.
    pub(crate) fn release(&mut self, address: IpAddr, pod: PodId, pods: &Pods) -> Option<PodId> {
        let claims = self.claims.get_mut(&address)?;
        let before = claims.owner;
        if before != pod {
            claims.others.retain(|other| *other != pod);
            return Some(before);
        }
        let mut heir = 0;
        for at in 1..claims.others.len() {
            if pods.outranks(claims.others[at], claims.others[heir]) {
                heir = at;
            }
        }
        if claims.others.is_empty() {
            self.claims.remove(&address);
        } else {
            claims.owner = claims.others.swap_remove(heir);
        }
        Some(before)
    }
}

/// The addresses of each node, as its pods tell them: how many of them say so.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    by_name: IdMap<Text, WordMap<IpAddr, usize>>,
}

impl Nodes {
    pub(crate) fn insert(&mut self, pod: &Facts) {
        let Some(node) = &pod.node else {
            return;
        };
        for address in told(pod) {
            let addresses = match self.by_name.get_mut(node) {
                Some(addresses) => addresses,
                None => self.by_name.entry(node.clone()).or_default(),
            };
            *addresses.entry(address).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, pod: &Facts) {
        let Some(node) = &pod.node else {
            return;
        };
        let Some(addresses) = self.by_name.get_mut(node) else {
            return;
        };
        for address in told(pod) {
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

    /// Whether an address, which is no pod's, is that of the node that the pod is on.
    pub(crate) fn is_own(&self, pod: &Facts, address: IpAddr) -> bool {
        let of_node = || self.by_name.get(pod.node.as_ref()?)?.get(&address);
        pod.host_addresses.contains(&address) || of_node().is_some()
    }
}

/// The addresses of its node that a pod tells.
fn told(pod: &Facts) -> impl Iterator<Item = IpAddr> {
    let own = pod.is_host_network.then_some(&pod.addresses);
    let own = own.into_iter().flatten();
    pod.host_addresses.iter().chain(own).copied()
}
