//! The set of nodes to simulate, with their names and addresses. No I/O.

use std::net::Ipv4Addr;

use rhumb_meta::ConfigFileError;

use crate::node_template::{self, NodeTemplate};

/// Limited by the address space.
pub const NODES_MAX: usize = 15_000;
/// Maximum number of pods per node, so that each has its own address.
pub(crate) const PODS_MAX: u32 = 1000;

/// Start of the first node's pod network; service addresses are below.
const POD_NETWORK: u32 = u32::from_be_bytes([10, 16, 0, 0]);
/// Host bits of a node's pod network, a /22.
const POD_BITS: u32 = 10;
const NODE_NETWORK: u32 = u32::from_be_bytes([172, 16, 0, 0]);
/// Skips the network address and the gateway.
const FIRST_POD: u32 = 2;
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const DEFAULT_NAME: &str = "simulated";

/// Nodes created from one template.
#[derive(Debug, Clone)]
pub(crate) struct NodePool {
    pub(crate) count: usize,
    pub(crate) template: NodeTemplate,
}

/// All nodes to simulate.
#[derive(Debug, Clone)]
pub struct NodePools {
    pools: Vec<NodePool>,
}

/// Name and number of a node. The number determines the addresses, so a node of the same name always has the same ones.
#[derive(Debug, Clone)]
pub(crate) struct NodeIdentity {
    pub(crate) name: String,
    pub(crate) number: u32,
    pool: usize,
}

impl NodePools {
    /// One pool of default nodes.
    pub fn new(nodes: usize) -> Result<NodePools, ConfigFileError> {
        NodePools::of(vec![NodePool {
            count: nodes,
            template: NodeTemplate::default(),
        }])
    }

    /// The pools of a template file. `nodes` is the total number of nodes, if given.
    pub fn from_template(text: &str, nodes: Option<usize>) -> Result<NodePools, ConfigFileError> {
        NodePools::of(node_template::read(text, nodes)?)
    }

    fn of(pools: Vec<NodePool>) -> Result<NodePools, ConfigFileError> {
        let node_pools = NodePools { pools };
        match node_pools.nodes() {
            nodes if nodes > NODES_MAX => Err(ConfigFileError::whole(format!(
                "{nodes} nodes are too many: there can be {NODES_MAX}"
            ))),
            _ => Ok(node_pools),
        }
    }

    pub fn nodes(&self) -> usize {
        let counts = self.pools.iter().map(|pool| pool.count);
        counts.fold(0, usize::saturating_add)
    }

    pub(crate) fn places(&self) -> Vec<NodeIdentity> {
        let pools = self.pools.iter().enumerate();
        let pools = pools.flat_map(|(number, pool)| std::iter::repeat_n(number, pool.count));
        let places = pools.zip(0..).map(|(pool, index)| {
            let name = match self.pools[pool].template.metadata.name.as_str() {
                "" => DEFAULT_NAME,
                name => name,
            };
            NodeIdentity {
                name: format!("{name}-{:05}", index + 1),
                number: index,
                pool,
            }
        });
        places.collect()
    }

    pub(crate) fn template(&self, identity: &NodeIdentity) -> &NodeTemplate {
        &self.pools[identity.pool].template
    }
}

impl NodeIdentity {
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

    /// The pod address of a slot.
    pub(crate) fn pod_address(&self, slot: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network() + FIRST_POD + slot)
    }

    /// The slot of a pod address, if it is in this node's network.
    pub(crate) fn slot(&self, address: Ipv4Addr) -> Option<u32> {
        let slot = address.to_bits().checked_sub(self.network() + FIRST_POD)?;
        (slot < PODS_MAX).then_some(slot)
    }
}

/// Allocates the pod addresses of a node. Addresses are reused as late as possible, because clients may still use those
/// of deleted pods.
#[derive(Debug, Default)]
pub(crate) struct PodIpAllocator {
    reserved: Vec<bool>,
    next: u32,
}

impl PodIpAllocator {
    /// `None` if all are allocated.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let slot = (0..PODS_MAX)
            .map(|step| (self.next + step) % PODS_MAX)
            .find(|slot| !self.is_taken(*slot))?;
        self.reserve(slot);
        self.next = (slot + 1) % PODS_MAX;
        Some(slot)
    }

    pub(crate) fn reserve(&mut self, slot: u32) {
        let slot = slot as usize;
        if self.reserved.len() <= slot {
            self.reserved.resize(slot + 1, false);
        }
        self.reserved[slot] = true;
    }

    pub(crate) fn release(&mut self, slot: u32) {
        if let Some(reserved) = self.reserved.get_mut(slot as usize) {
            *reserved = false;
        }
    }

    fn is_taken(&self, slot: u32) -> bool {
        self.reserved
            .get(slot as usize)
            .is_some_and(|reserved| *reserved)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_node_has_a_name_and_addresses_of_its_own() {
        let places = NodePools::new(NODES_MAX).expect("node pools").places();
        let first = &places[0];
        assert_eq!(first.name, "simulated-00001");
        assert_eq!(first.address().to_string(), "172.16.0.1");
        assert_eq!(first.pod_cidr(), "10.16.0.0/22");
        assert_eq!(first.pod_address(0).to_string(), "10.16.0.2");
        assert_eq!(places[1].pod_cidr(), "10.16.4.0/22");
        let last = places.last().expect("a node");
        assert_eq!(last.name, "simulated-15000");
        assert!(last.pod_address(PODS_MAX - 1).octets()[0] == 10);
        let networks: HashSet<u32> = places.iter().map(NodeIdentity::network).collect();
        assert_eq!(networks.len(), NODES_MAX);
        assert!(NodePools::new(NODES_MAX + 1).is_err());
    }

    #[test]
    fn the_slot_of_an_address_is_found() {
        let places = NodePools::new(2).expect("node pools").places();
        let address = places[1].pod_address(PODS_MAX - 1);
        assert_eq!(places[1].slot(address), Some(PODS_MAX - 1));
        assert_eq!(places[0].slot(address), None);
        assert_eq!(places[1].slot(Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn slots_are_unique_and_used_again_late() {
        let mut slots = PodIpAllocator::default();
        slots.reserve(1);
        let reserved: Vec<_> = (0..3).map(|_| slots.take()).collect();
        assert_eq!(reserved, [Some(0), Some(2), Some(3)]);
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
