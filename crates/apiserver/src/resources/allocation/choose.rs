//! Which free address or port is given: from a random place on, so that what was just given back is not given
//! out at once, and first from the part of a range that is not kept for clients that ask.

use std::net::IpAddr;
use std::ops::Range;

use rhumb_api::service_allocation::{AddressRange, PortRange};

/// Tries addresses until `take` takes one.
pub(super) fn address(
    range: AddressRange,
    take: &mut impl FnMut(IpAddr) -> bool,
) -> Option<IpAddr> {
    places(range.dynamic_start(), range.size())
        .filter_map(|place| range.nth(place))
        .find(|&address| take(address))
}

pub(super) fn port(range: PortRange, take: &mut impl FnMut(u16) -> bool) -> Option<u16> {
    places(range.dynamic_start() as u128, range.size() as u128)
        .filter_map(|place| range.nth(usize::try_from(place).ok()?))
        .find(|&port| take(port))
}

/// All places below `size`, each once, those from `dynamic` on first.
fn places(dynamic: u128, size: u128) -> impl Iterator<Item = u128> {
    let random = uuid::Uuid::new_v4().as_u128();
    turned(dynamic..size, random).chain(turned(0..dynamic, random))
}

/// A range from a random place in it on, and around.
fn turned(range: Range<u128>, random: u128) -> impl Iterator<Item = u128> {
    let length = range.end - range.start;
    let middle = range.start + random.checked_rem(length).unwrap_or(0);
    (middle..range.end).chain(range.start..middle)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rhumb_api::addresses::Block;

    use super::*;

    #[test]
    fn every_address_is_given_once_and_those_kept_for_askers_last() {
        let range = AddressRange::new(Block::parse_lax("10.0.0.0/24").expect("a block"));
        let mut given = BTreeSet::new();
        let mut order = Vec::new();
        while let Some(got) = address(range, &mut |address| !given.contains(&address)) {
            given.insert(got);
            order.push(range.place(got).expect("in range"));
        }
        assert_eq!(order.len(), 254);
        assert!(order[..238].iter().all(|&place| place >= 16));
        assert!(order[238..].iter().all(|&place| place < 16));
    }

    #[test]
    fn every_port_is_given_once() {
        let range = PortRange::parse("30000-30049").expect("a range");
        let mut given = BTreeSet::new();
        while let Some(got) = port(range, &mut |port| !given.contains(&port)) {
            assert!(given.insert(got), "{got} was given twice");
        }
        assert_eq!(given.len(), 50);
    }
}
