//! Dense integer ids of nodes, pods, matchers, terms and topologies, and hash maps keyed by them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(super) u32);

        impl SlabKey for $name {
            fn from_index(index: usize) -> Self {
                // Unreachable in practice: memory is exhausted long before.
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A node, or the name of a node that pods are assigned to and that has not been listed.
    NodeId,
    PodId,
    /// A pod matcher: label selector plus namespaces.
    PodMatcherId,
    /// A pair of pod matcher and topology.
    TermId,
    /// The topology of one node label.
    TopologyId,
    /// A topology domain: one value of the node label of a topology.
    TopologyDomainId,
}

/// An id that is an index into a slab.
pub trait SlabKey: Copy {
    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

/// Hashes ids with one multiplication. Safe against collision attacks, since clients cannot choose ids.
#[derive(Debug, Default, Clone, Copy)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The hash table uses the lowest and the highest bits; only the highest are well mixed.
        self.0 ^= self.0 >> 32;
    }
}

pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
pub type IdSet<K> = HashSet<K, BuildHasherDefault<IdHasher>>;
