//! Deterministic random numbers, so that a failing seed can be reproduced on any machine.

/// A generator with a fixed seed.
#[derive(Debug, Clone)]
pub struct SeededRng(fastrand::Rng);

impl SeededRng {
    pub fn new(seed: u64) -> Self {
        SeededRng(fastrand::Rng::with_seed(seed))
    }

    /// A number from zero up to, but not including, `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }
}
