//! A seeded random generator for reproducible tests.

use serde_json::{Map, Value};

#[derive(Debug)]
pub(crate) struct SeededRng(fastrand::Rng);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> SeededRng {
        SeededRng(fastrand::Rng::with_seed(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    pub(crate) fn random_list(
        &mut self,
        most: usize,
        mut make: impl FnMut(&mut SeededRng) -> Value,
    ) -> Value {
        let length = self.below(most + 1);
        (0..length).map(|_| make(self)).collect()
    }

    /// Each key with the given probability, with one of the values.
    pub(crate) fn random_labels(
        &mut self,
        keys: &[&str],
        values: &[&str],
        percent: usize,
    ) -> Value {
        let mut labels = Map::new();
        for key in keys {
            if self.chance(percent) {
                labels.insert((*key).to_owned(), self.choose(values).into());
            }
        }
        labels.into()
    }

    /// Sets a field of an object with the given probability.
    pub(crate) fn maybe_set(
        &mut self,
        object: &mut Value,
        key: &str,
        percent: usize,
        make: impl FnOnce(&mut SeededRng) -> Value,
    ) {
        if self.chance(percent) {
            object[key] = make(self);
        }
    }
}
