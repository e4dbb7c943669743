//! The set of fields of an object that the decoder has seen, by position.

#[derive(Default)]
pub(super) struct DecodedFieldSet {
    /// Positions below 64, one bit each.
    low: u64,
    high: Vec<bool>,
}

impl DecodedFieldSet {
    /// Adds a position; returns whether it was already in the set.
    pub(super) fn test_and_set(&mut self, position: usize) -> bool {
        if position < 64 {
            let bit = 1 << position;
            let is_duplicate = self.low & bit != 0;
            self.low |= bit;
            return is_duplicate;
        }
        if self.high.len() <= position {
            self.high.resize(position + 1, false);
        }
        std::mem::replace(&mut self.high[position], true)
    }
}
