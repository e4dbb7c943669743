//! Deterministic random numbers for tests and benchmarks: the same seed gives the same sequence on every machine.
//!
//! Entry point: [`SeededRng`], `fastrand`'s generator with the choices that generators of random objects make.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

#[derive(Debug, Clone)]
pub struct SeededRng(fastrand::Rng);

impl SeededRng {
    pub fn new(seed: u64) -> SeededRng {
        SeededRng(fastrand::Rng::with_seed(seed))
    }

    /// A number from zero up to, but not including, `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    /// A number from `first` to `last`, including both.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// True in one of `bound` cases.
    pub fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    /// True in `chance` of 100 cases.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A copy of one of the values.
    pub fn choose<T: Clone>(&mut self, from: &[T]) -> T {
        self.pick(from).clone()
    }

    /// Up to `at_most` of the texts; one may occur repeatedly.
    pub fn some(&mut self, from: &[&str], at_most: usize) -> Vec<String> {
        (0..self.below(at_most + 1))
            .map(|_| self.choose(from).to_owned())
            .collect()
    }

    /// Picks one with a probability proportional to its weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let sum = choices.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(sum);
        for (weight, choice) in choices {
            if left < *weight {
                return *choice;
            }
            left -= weight;
        }
        choices[0].1
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.0.shuffle(items);
    }
}
