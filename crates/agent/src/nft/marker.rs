//! By what a table is known again.

use std::hash::{BuildHasher as _, RandomState};

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

    /// As nft shows it in a set.
    pub(super) fn find(shown: &str) -> Option<Marker> {
        let (_, rest) = shown.split_once("elements = { 0x")?;
        let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        u32::from_str_radix(digits, 16).ok().map(Marker)
    }

    #[cfg(test)]
    pub(super) fn of(number: u32) -> Marker {
        Marker(number)
    }
}

impl std::fmt::Display for Marker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
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

    #[test]
    fn a_marker_is_found_where_nft_shows_it() {
        let set = |elements: &str| {
            format!("table inet rhumb {{\n\tset marker {{\n\t\ttype mark\n{elements}\t}}\n}}\n")
        };
        let marker = Marker::of(0xba8e_0c8d);
        let shown = set("\t\telements = { 0xba8e0c8d }\n");
        assert_eq!(Marker::find(&shown), Some(marker));
        assert_eq!(marker.to_string(), "0xba8e0c8d");
        assert_eq!(Marker::find(&set("")), None);
        assert_eq!(Marker::find(""), None);
    }
}
