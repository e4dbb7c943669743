//! Which simulated nodes there are to be, with their names and addresses. Pure.

use std::net::Ipv4Addr;

use rhumb_meta::FileError;

use crate::template::{self, Template};

/// As many as there are addresses for.
pub const NODES_MAX: usize = 15_000;
/// Pods that a node can have, so that each has an address of its own.
pub(crate) const PODS_MAX: u32 = 1000;

/// Pods of the first node have theirs from here on; below are those of services.
const POD_NETWORK: u32 = u32::from_be_bytes([10, 16, 0, 0]);
/// Each node has a /22.
const POD_BITS: u32 = 10;
const NODE_NETWORK: u32 = u32::from_be_bytes([172, 16, 0, 0]);
/// The network, and its gateway.
const FIRST_POD: u32 = 2;
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const DEFAULT_NAME: &str = "simulated";

/// Nodes of one sort.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub(crate) count: usize,
    pub(crate) template: Template,
}

/// All nodes that there are to be.
#[derive(Debug, Clone)]
pub struct Fleet {
    pools: Vec<Pool>,
}

/// One of them. Its number is in its name and decides its addresses, so that a node has the same ones whenever there
/// is one of its name.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) number: u32,
    pool: usize,
}

impl Fleet {
    /// Of nodes as they are by default.
    pub fn new(nodes: usize) -> Result<Fleet, FileError> {
        Fleet::of(vec![Pool {
            count: nodes,
            template: Template::default(),
        }])
    }

    /// Of nodes as a file says. `nodes` is how many there are in all.
    pub fn from_template(text: &str, nodes: Option<usize>) -> Result<Fleet, FileError> {
        Fleet::of(template::read(text, nodes)?)
    }

    fn of(pools: Vec<Pool>) -> Result<Fleet, FileError> {
        let fleet = Fleet { pools };
        match fleet.nodes() {
            nodes if nodes > NODES_MAX => Err(FileError::whole(format!(
                "{nodes} nodes are too many: there can be {NODES_MAX}"
            ))),
            _ => Ok(fleet),
        }
    }

    pub fn nodes(&self) -> usize {
        let counts = self.pools.iter().map(|pool| pool.count);
        counts.fold(0, usize::saturating_add)
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        let pools = self.pools.iter().enumerate();
        let pools = pools.flat_map(|(number, pool)| std::iter::repeat_n(number, pool.count));
        let places = pools.zip(0..).map(|(pool, index)| {
            let name = match self.pools[pool].template.metadata.name.as_str() {
                "" => DEFAULT_NAME,
                name => name,
            };
            Place {
                name: format!("{name}-{:05}", index + 1),
                number: index,
                pool,
            }
        });
        places.collect()
    }

    pub(crate) fn template(&self, place: &Place) -> &Template {
        &self.pools[place.pool].template
    }
}

impl Place {
    pub(crate) fn zone(&self) -> &'static str {
        ZONES[self.number as usize % ZONES.len()]
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(NODE_NETWORK + self.number + 1)
    }

    fn network(&self) -> u32 {
        POD_NETWORK + (self.number << POD_BITS)
    }

    pub(crate) fn pod_cidr(&self) -> String {
        let bits = u32::BITS - POD_BITS;
        format!("{}/{bits}", Ipv4Addr::from_bits(self.network()))
    }

    /// The address of a pod in one of the node's slots.
    pub(crate) fn pod_address(&self, slot: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network() + FIRST_POD + slot)
    }

    /// The slot that an address is of, if it is one of this node's.
    pub(crate) fn slot(&self, address: Ipv4Addr) -> Option<u32> {
        let slot = address.to_bits().checked_sub(self.network() + FIRST_POD)?;
        (slot < PODS_MAX).then_some(slot)
    }
}

/// Which slots of a node are taken. Addresses are used again as late as possible, as clients may still believe in
/// those of pods that are gone.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    taken: Vec<bool>,
    next: u32,
}

impl Slots {
    /// `None` if all are taken.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let slot = (0..PODS_MAX)
            .map(|step| (self.next + step) % PODS_MAX)
            .find(|slot| !self.is_taken(*slot))?;
        self.hold(slot);
        self.next = (slot + 1) % PODS_MAX;
        Some(slot)
    }

    pub(crate) fn hold(&mut self, slot: u32) {
        let slot = slot as usize;
        if self.taken.len() <= slot {
            self.taken.resize(slot + 1, false);
        }
        self.taken[slot] = true;
    }

    pub(crate) fn release(&mut self, slot: u32) {
        if let Some(taken) = self.taken.get_mut(slot as usize) {
            *taken = false;
        }
    }

    fn is_taken(&self, slot: u32) -> bool {
        self.taken.get(slot as usize).is_some_and(|taken| *taken)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_node_has_a_name_and_addresses_of_its_own() {
        let places = Fleet::new(NODES_MAX).expect("a fleet").places();
        let first = &places[0];
        assert_eq!(first.name, "simulated-00001");
        assert_eq!(first.address().to_string(), "172.16.0.1");
        assert_eq!(first.pod_cidr(), "10.16.0.0/22");
        assert_eq!(first.pod_address(0).to_string(), "10.16.0.2");
        assert_eq!(places[1].pod_cidr(), "10.16.4.0/22");
        let last = places.last().expect("a node");
        assert_eq!(last.name, "simulated-15000");
        assert!(last.pod_address(PODS_MAX - 1).octets()[0] == 10);
        let networks: HashSet<u32> = places.iter().map(Place::network).collect();
        assert_eq!(networks.len(), NODES_MAX);
        assert!(Fleet::new(NODES_MAX + 1).is_err());
    }

    #[test]
    fn the_slot_of_an_address_is_found() {
        let places = Fleet::new(2).expect("a fleet").places();
        let address = places[1].pod_address(PODS_MAX - 1);
        assert_eq!(places[1].slot(address), Some(PODS_MAX - 1));
        assert_eq!(places[0].slot(address), None);
        assert_eq!(places[1].slot(Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn slots_are_unique_and_used_again_late() {
        let mut slots = Slots::default();
        slots.hold(1);
        let taken: Vec<_> = (0..3).map(|_| slots.take()).collect();
        assert_eq!(taken, [Some(0), Some(2), Some(3)]);
        slots.release(0);
        assert_eq!(slots.take(), Some(4));
        for _ in 0..PODS_MAX - 4 {
            assert!(slots.take().is_some());
        }
        assert_eq!(slots.take(), None);
        slots.release(7);
        assert_eq!(slots.take(), Some(7));
    }
}
