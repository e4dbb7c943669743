//! Random JSON values.

use rhumb_seeded_rng::SeededRng;
use serde_json::{Map, Value};

/// The choices of the generators of objects.
pub(crate) trait JsonChoices {
    fn random_list(&mut self, most: usize, make: impl FnMut(&mut SeededRng) -> Value) -> Value;

    /// Each key with the given probability, with one of the values.
    fn random_labels(&mut self, keys: &[&str], values: &[&str], percent: usize) -> Value;

    /// Sets a field of an object with the given probability.
    fn maybe_set(
        &mut self,
        object: &mut Value,
        key: &str,
        percent: usize,
        make: impl FnOnce(&mut SeededRng) -> Value,
    );
}

impl JsonChoices for SeededRng {
    fn random_list(&mut self, most: usize, mut make: impl FnMut(&mut SeededRng) -> Value) -> Value {
        let length = self.below(most + 1);
        (0..length).map(|_| make(self)).collect()
    }

    fn random_labels(&mut self, keys: &[&str], values: &[&str], percent: usize) -> Value {
        let mut labels = Map::new();
        for key in keys {
            if self.percent(percent) {
                labels.insert((*key).to_owned(), self.choose(values).into());
            }
        }
        labels.into()
    }

    fn maybe_set(
        &mut self,
        object: &mut Value,
        key: &str,
        percent: usize,
        make: impl FnOnce(&mut SeededRng) -> Value,
    ) {
        if self.percent(percent) {
            object[key] = make(self);
        }
    }
}
