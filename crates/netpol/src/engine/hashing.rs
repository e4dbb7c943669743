//! Hash functions and hash map types of the engine, faster than SipHash for its keys.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// Odd, with well distributed bits (the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes ids and pointers with one multiplication. Clients cannot choose these keys, so collision attacks are
/// impossible.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(MULTIPLIER);
        // hashbrown uses the lowest and the highest bits; a multiplication only mixes the highest well.
        self.0 ^= self.0 >> 32;
    }
}

/// Not to be iterated where the order is visible.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
pub(crate) type IdSet<I> = HashSet<I, BuildHasherDefault<IdHasher>>;

/// Hashes keys that clients choose, mostly short strings, with one multiplication per eight bytes. The initial state
/// and the multiplier are random per map, so that clients cannot construct collisions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UntrustedKeyHasher {
    state: u64,
    multiplier: u64,
}

impl UntrustedKeyHasher {
    fn mix(&mut self, number: u64) {
        let product = u128::from(self.state ^ number) * u128::from(self.multiplier);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for UntrustedKeyHasher {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The length distinguishes strings that end in zero bytes, and makes an empty string change the state.
        self.mix(u64::from_le_bytes(last) ^ (bytes.len() as u64).rotate_right(8));
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }
}

/// Creates hashers with the random seed of one map.
#[derive(Debug, Clone)]
pub(crate) struct UntrustedKeyHasherBuilder(UntrustedKeyHasher);

impl Default for UntrustedKeyHasherBuilder {
    fn default() -> Self {
        let random = RandomState::new();
        UntrustedKeyHasherBuilder(UntrustedKeyHasher {
            state: random.hash_one(0),
            multiplier: random.hash_one(1) | 1,
        })
    }
}

impl BuildHasher for UntrustedKeyHasherBuilder {
    type Hasher = UntrustedKeyHasher;

    fn build_hasher(&self) -> UntrustedKeyHasher {
        self.0
    }
}

/// Not to be iterated where the order is visible.
pub(crate) type UntrustedKeyMap<K, V> = HashMap<K, V, UntrustedKeyHasherBuilder>;
pub(crate) type UntrustedKeySet<K> = HashSet<K, UntrustedKeyHasherBuilder>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn similar_strings_have_well_distributed_hashes() {
        let builder = UntrustedKeyHasherBuilder::default();
        let ends = ["", "\0", "a", "a\0", "app", "b", "-1", "/x/y/z"];
        let words = (0..4096).flat_map(|at| ends.map(|end| format!("app-{at}{end}")));
        let hashes: Vec<u64> = words.map(|word| builder.hash_one(word)).collect();
        let distinct: BTreeSet<u64> = hashes.iter().copied().collect();
        assert_eq!(distinct.len(), hashes.len());
        for bits in [0, 20, 48] {
            let used: BTreeSet<u64> = hashes.iter().map(|hash| (hash >> bits) & 0xffff).collect();
            // A random function would hit about 25,800 of 65,536 values.
            assert!(used.len() > 25_000, "{} from bit {bits}", used.len());
        }
    }
}
