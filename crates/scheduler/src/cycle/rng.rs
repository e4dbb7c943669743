//! Random numbers for choosing among equally good nodes.

/// A seeded SplitMix64 generator: deterministic, not cryptographically secure.
#[derive(Debug, Clone)]
pub struct SplitMix64Rng(u64);

impl Default for SplitMix64Rng {
    fn default() -> Self {
        SplitMix64Rng::new(0x5eed)
    }
}

impl SplitMix64Rng {
    pub fn new(seed: u64) -> SplitMix64Rng {
        SplitMix64Rng(seed)
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31))
            .checked_rem(bound)
            .unwrap_or_default()
    }
}
