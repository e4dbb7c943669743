//! Chance, where nodes are equally good.

/// A sequence of numbers that looks random and can be had again. It needs to be fair, and keeps no secret.
#[derive(Debug, Clone)]
pub struct Shuffle(u64);

impl Default for Shuffle {
    fn default() -> Self {
        Shuffle::new(0x5eed)
    }
}

impl Shuffle {
    pub fn new(seed: u64) -> Shuffle {
        Shuffle(seed)
    }

    /// From 0 to below `bound`; 0 if there is nothing below.
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
