//! Small numbers that stand for things, and maps from them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(super) u32);

        impl Id for $name {
            fn from_index(index: usize) -> Self {
                // Memory ends long before: no more than this many fit into it.
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// A node, or the name of one that pods are on and nobody has described.
    NodeId,
    PodId,
    PickerId,
    TermId,
    TopologyId,
    /// A value of the label that a topology is about.
    Domain,
}

/// A number that says where in a list something is.
pub trait Id: Copy {
    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

/// Spreads small numbers over a table by one multiplication: they are ours, so nobody can choose them to collide.
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
        // The table looks at the lowest and the highest bits; the highest are the well mixed ones.
        self.0 ^= self.0 >> 32;
    }
}

pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
pub type IdSet<K> = HashSet<K, BuildHasherDefault<IdHasher>>;
