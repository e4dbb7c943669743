//! Hash functions and hash map types that are faster than SipHash for ids, interned strings and short texts.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Odd, with well distributed bits (the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes ids and pointers with one multiplication each. Clients cannot choose these keys, so collision attacks are
/// impossible.
#[derive(Debug, Default, Clone, Copy)]
pub struct FxIdHasher(u64);

impl Hasher for FxIdHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(MULTIPLIER);
        // hashbrown uses the lowest and the highest bits; a multiplication only mixes the highest well.
        self.0 ^= self.0 >> 32;
    }
}

/// Not to be iterated where the order is visible.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<FxIdHasher>>;
pub type IdSet<I> = HashSet<I, BuildHasherDefault<FxIdHasher>>;

/// Creates hashers for keys that clients choose. Each map has a random seed, so that clients cannot prepare collisions.
pub type UntrustedKeyHasherBuilder = foldhash::fast::RandomState;

/// Not to be iterated where the order is visible.
pub type UntrustedKeyMap<K, V> = HashMap<K, V, UntrustedKeyHasherBuilder>;
pub type UntrustedKeySet<K> = HashSet<K, UntrustedKeyHasherBuilder>;
