//! Chance that can be had again.

use serde_json::{Map, Value};

use crate::cycle::Shuffle;

#[derive(Debug)]
pub(crate) struct Dice(Shuffle);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(Shuffle::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    pub(crate) fn list(&mut self, most: usize, mut make: impl FnMut(&mut Dice) -> Value) -> Value {
        let length = self.below(most + 1);
        (0..length).map(|_| make(self)).collect()
    }

    /// Some of the keys, each with one of the values.
    pub(crate) fn labels(&mut self, keys: &[&str], values: &[&str], percent: usize) -> Value {
        let mut labels = Map::new();
        for key in keys {
            if self.chance(percent) {
                labels.insert((*key).to_owned(), self.one_of(values).into());
            }
        }
        labels.into()
    }

    /// Puts something into an object, or leaves it out.
    pub(crate) fn maybe(
        &mut self,
        object: &mut Value,
        key: &str,
        percent: usize,
        make: impl FnOnce(&mut Dice) -> Value,
    ) {
        if self.chance(percent) {
            object[key] = make(self);
        }
    }
}
