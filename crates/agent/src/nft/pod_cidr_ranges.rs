//! The pod CIDRs of a node as address ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rhumb_netpol::IpFamily;

use super::policy_rule_matches::family;

/// Disjoint, sorted, inclusive address ranges. An address in them that belongs to no known pod belongs to a pod that
/// the agent does not know yet, or to one that was deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodCidrRanges(Vec<(IpAddr, IpAddr)>);

impl PodCidrRanges {
    /// Parses CIDRs such as `10.1.2.0/24`; invalid ones are ignored.
    pub fn from_cidrs<'a>(blocks: impl IntoIterator<Item = &'a str>) -> PodCidrRanges {
        let mut ranges: Vec<(IpAddr, IpAddr)> = blocks.into_iter().filter_map(parse_cidr).collect();
        ranges.sort_unstable();
        // CIDRs never overlap partially: one contains the other, or they are disjoint.
        ranges.dedup_by(|later, earlier| later.1 <= earlier.1);
        PodCidrRanges(ranges)
    }

    /// First and last address of each range.
    pub fn ranges(&self) -> &[(IpAddr, IpAddr)] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn of_family(&self, of: IpFamily) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let ranges = self.0.iter().copied();
        ranges.filter(move |(first, _)| family(*first) == of)
    }
}

fn parse_cidr(block: &str) -> Option<(IpAddr, IpAddr)> {
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
    use super::super::set_elements::RangeDisplay;
    use super::*;

    #[test]
    fn cidrs_become_disjoint_ranges() {
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
            let held = PodCidrRanges::from_cidrs(blocks.iter().copied());
            let of = |family| {
                let ranges = held.of_family(family);
                let shown = ranges.map(|(first, last)| RangeDisplay(first, last).to_string());
                shown.collect::<Vec<_>>()
            };
            assert_eq!(of(IpFamily::V4), v4, "{blocks:?}");
            assert_eq!(of(IpFamily::V6), v6, "{blocks:?}");
        }
    }
}
