//! By what a table is known again.

use std::hash::{BuildHasher as _, RandomState};

use super::elements::Element;

const STEPS: u32 = 0x4000;
const STEP_BITS: u32 = 16;

/// A number that is in a table. Two tables hardly ever have the same, and it says how often the table has been replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker(u32);

impl Marker {
    /// Of a table that follows one with this marker.
    pub fn after(before: Option<Marker>) -> Marker {
        let step = before.map_or(0, |before| (u32::from(before.step()) + 1) % STEPS);
        let random = RandomState::new().hash_one(()) as u32;
        Marker(random << STEP_BITS | step)
    }

    /// How often the table has been replaced. It begins anew some day.
    pub(super) fn step(self) -> u16 {
        self.0 as u16
    }

    /// As it is in the set of markers.
    pub(super) fn element(self) -> Element {
        Element::Mark(self.0)
    }

    /// As the kernel has it there.
    pub(super) fn of_key(key: &[u8]) -> Option<Marker> {
        let key = key.try_into().ok()?;
        Some(Marker(u32::from_ne_bytes(key)))
    }

    #[cfg(test)]
    pub(super) fn of(number: u32) -> Marker {
        Marker(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_marker_is_another_and_has_the_next_step() {
        let first = Marker::after(None);
        assert_eq!(first.step(), 0);
        let second = Marker::after(Some(first));
        assert_eq!(second.step(), 1);
        let last = Marker::of(0xabcd_3fff);
        assert_eq!(last.step(), 0x3fff);
        assert_eq!(Marker::after(Some(last)).step(), 0);
        assert_ne!(first, second);
    }
}
