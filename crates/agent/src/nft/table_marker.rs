//! An element in the agent's table that identifies the version of the table.

use std::hash::{BuildHasher as _, RandomState};

use super::set_elements::NftSetElement;

const GENERATIONS: u32 = 0x4000;
const GENERATION_BITS: u32 = 16;

/// A random number and a generation that counts replacements of the table. It is an element of the set `marker`:
/// updates fail if the table was replaced by another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableMarker(u32);

impl TableMarker {
    /// The marker for the table that replaces the one with marker `before`.
    pub fn next_after(before: Option<TableMarker>) -> TableMarker {
        let step = before.map_or(0, |before| {
            (u32::from(before.generation()) + 1) % GENERATIONS
        });
        let random = RandomState::new().hash_one(()) as u32;
        TableMarker(random << GENERATION_BITS | step)
    }

    /// The number of replacements, modulo [`GENERATIONS`].
    pub(super) fn generation(self) -> u16 {
        self.0 as u16
    }

    /// The element of the set `marker`.
    pub(super) fn element(self) -> NftSetElement {
        NftSetElement::Mark(self.0)
    }

    /// Decodes the key of the element.
    pub(super) fn from_key(key: &[u8]) -> Option<TableMarker> {
        let key = key.try_into().ok()?;
        Some(TableMarker(u32::from_ne_bytes(key)))
    }

    #[cfg(test)]
    pub(super) fn of(number: u32) -> TableMarker {
        TableMarker(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_unique_with_increasing_generation() {
        let first = TableMarker::next_after(None);
        assert_eq!(first.generation(), 0);
        let second = TableMarker::next_after(Some(first));
        assert_eq!(second.generation(), 1);
        let last = TableMarker::of(0xabcd_3fff);
        assert_eq!(last.generation(), 0x3fff);
        assert_eq!(TableMarker::next_after(Some(last)).generation(), 0);
        assert_ne!(first, second);
    }
}
