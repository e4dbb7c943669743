//! The addresses that a node gives to its pods.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rhumb_netpol::Family;

use super::rules::family;

/// Ranges of addresses, disjoint and in order, first and last included. Whoever has one of them and is no pod that is
/// known is a pod that is not known yet, or no longer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held(Vec<(IpAddr, IpAddr)>);

impl Held {
    /// Of blocks such as `10.1.2.0/24`; those that are none are left out.
    pub fn of<'a>(blocks: impl IntoIterator<Item = &'a str>) -> Held {
        let mut ranges: Vec<(IpAddr, IpAddr)> = blocks.into_iter().filter_map(range).collect();
        ranges.sort_unstable();
        // Blocks never overlap by halves: one is within the other, or they have nothing in common.
        ranges.dedup_by(|later, earlier| later.1 <= earlier.1);
        Held(ranges)
    }

    /// Each with its first and its last address.
    pub fn ranges(&self) -> &[(IpAddr, IpAddr)] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn of_family(&self, of: Family) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let ranges = self.0.iter().copied();
        ranges.filter(move |(first, _)| family(*first) == of)
    }
}

fn range(block: &str) -> Option<(IpAddr, IpAddr)> {
    let (address, length) = block.split_once('/')?;
    let (address, length) = (address.parse().ok()?, length.parse::<u32>().ok()?);
    match address {
        IpAddr::V4(address) => {
            let free = u32::MAX.checked_shr(length).unwrap_or(0);
            let first = address.to_bits() & !free;
            let range = (
                Ipv4Addr::from(first).into(),
                Ipv4Addr::from(first | free).into(),
            );
            (length <= u32::BITS).then_some(range)
        }
        IpAddr::V6(address) => {
            let free = u128::MAX.checked_shr(length).unwrap_or(0);
            let first = address.to_bits() & !free;
            let range = (
                Ipv6Addr::from(first).into(),
                Ipv6Addr::from(first | free).into(),
            );
            (length <= u128::BITS).then_some(range)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::elements::Span;
    use super::*;

    #[test]
    fn blocks_are_ranges_that_do_not_overlap() {
        for (blocks, v4, v6) in [
            (vec![], vec![], vec![]),
            (vec!["10.1.2.0/24"], vec!["10.1.2.0-10.1.2.255"], vec![]),
            (vec!["10.1.2.3/32"], vec!["10.1.2.3"], vec![]),
            (vec!["10.1.2.3/0"], vec!["0.0.0.0-255.255.255.255"], vec![]),
            (
                vec![
                    "fd00:1::/120",
                    "10.1.2.7/24",
                    "10.1.2.16/28",
                    "10.1.0.0/24",
                    "10.1.0.0/24",
                ],
                vec!["10.1.0.0-10.1.0.255", "10.1.2.0-10.1.2.255"],
                vec!["fd00:1::-fd00:1::ff"],
            ),
            (
                vec![
                    "",
                    "10.1.2.0",
                    "10.1.2.0/33",
                    "x/24",
                    "fd00::/129",
                    "1.2.3.4/-1",
                ],
                vec![],
                vec![],
            ),
        ] {
            let held = Held::of(blocks.iter().copied());
            let of = |family| {
                let ranges = held.of_family(family);
                let shown = ranges.map(|(first, last)| Span(first, last).to_string());
                shown.collect::<Vec<_>>()
            };
            assert_eq!(of(Family::V4), v4, "{blocks:?}");
            assert_eq!(of(Family::V6), v6, "{blocks:?}");
        }
    }
}
