//! How things are spread over tables.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// Odd, with bits all over.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads small numbers and places in memory over a table by one multiplication: they are ours, so nobody can choose them
/// to collide.
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
        // The table looks at the lowest and the highest bits; the highest are the well mixed ones.
        self.0 ^= self.0 >> 32;
    }
}

/// Never iterated where the order could show.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
pub(crate) type IdSet<I> = HashSet<I, BuildHasherDefault<IdHasher>>;

/// Spreads what others choose, mostly short words, by a multiplication for every eight bytes. It begins with a number that
/// nobody knows and multiplies by another, without which nobody can tell what collides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordHasher {
    state: u64,
    multiplier: u64,
}

impl WordHasher {
    fn mix(&mut self, number: u64) {
        let product = u128::from(self.state ^ number) * u128::from(self.multiplier);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for WordHasher {
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
        // The length tells words apart that end in zeros, and never lets the beginning stay as it is.
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

#[derive(Debug, Clone)]
pub(crate) struct Secret(WordHasher);

impl Default for Secret {
    fn default() -> Self {
        let random = RandomState::new();
        Secret(WordHasher {
            state: random.hash_one(0),
            multiplier: random.hash_one(1) | 1,
        })
    }
}

impl BuildHasher for Secret {
    type Hasher = WordHasher;

    fn build_hasher(&self) -> WordHasher {
        self.0
    }
}

/// Never iterated where the order could show.
pub(crate) type WordMap<K, V> = HashMap<K, V, Secret>;
pub(crate) type WordSet<K> = HashSet<K, Secret>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_that_differ_little_are_spread_well() {
        let secret = Secret::default();
        let ends = ["", "\0", "a", "a\0", "app", "b", "-1", "/x/y/z"];
        let words = (0..4096).flat_map(|at| ends.map(|end| format!("app-{at}{end}")));
        let hashes: Vec<u64> = words.map(|word| secret.hash_one(word)).collect();
        let distinct: BTreeSet<u64> = hashes.iter().copied().collect();
        assert_eq!(distinct.len(), hashes.len());
        for bits in [0, 20, 48] {
            let used: BTreeSet<u64> = hashes.iter().map(|hash| (hash >> bits) & 0xffff).collect();
            // By chance 25,800 of 65,536 places are taken.
            assert!(used.len() > 25_000, "{} from bit {bits}", used.len());
        }
    }
}
