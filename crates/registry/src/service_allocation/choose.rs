//! Chooses a free address or port by scanning a range from a random offset, so that released ones are not reused at
//! once. The static band of a range, which is kept for explicit requests (KEP-3070), is scanned last.

use std::net::IpAddr;
use std::ops::Range;

use rhumb_api::service_allocation::{NodePortRange, ServiceIpRange};

/// Tries the addresses of a range until `try_allocate` accepts one.
pub(super) fn choose_address(
    range: ServiceIpRange,
    try_allocate: &mut impl FnMut(IpAddr) -> bool,
) -> Option<IpAddr> {
    randomized_offsets(range.dynamic_start(), range.size())
        .filter_map(|offset| range.nth(offset))
        .find(|&address| try_allocate(address))
}

/// Tries the ports of a range until `try_allocate` accepts one.
pub(super) fn choose_port(
    range: NodePortRange,
    try_allocate: &mut impl FnMut(u16) -> bool,
) -> Option<u16> {
    randomized_offsets(range.dynamic_start() as u128, range.size() as u128)
        .filter_map(|offset| range.nth(usize::try_from(offset).ok()?))
        .find(|&port| try_allocate(port))
}

/// All offsets below `size`, each once; those from `dynamic` on come first.
fn randomized_offsets(dynamic: u128, size: u128) -> impl Iterator<Item = u128> {
    let random = uuid::Uuid::new_v4().as_u128();
    rotated(dynamic..size, random).chain(rotated(0..dynamic, random))
}

/// The range, rotated to start at a random offset.
fn rotated(range: Range<u128>, random: u128) -> impl Iterator<Item = u128> {
    let length = range.end - range.start;
    let middle = range.start + random.checked_rem(length).unwrap_or(0);
    (middle..range.end).chain(range.start..middle)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rhumb_api::ip_addresses::CidrBlock;

    use super::*;

    #[test]
    fn every_address_is_chosen_once_and_the_static_band_last() {
        let range = ServiceIpRange::new(CidrBlock::parse_lax("10.0.0.0/24").expect("valid CIDR"));
        let mut chosen = BTreeSet::new();
        let mut order = Vec::new();
        while let Some(candidate) = choose_address(range, &mut |address| !chosen.contains(&address))
        {
            chosen.insert(candidate);
            order.push(range.offset_of(candidate).expect("address in range"));
        }
        assert_eq!(order.len(), 254);
        assert!(order[..238].iter().all(|&offset| offset >= 16));
        assert!(order[238..].iter().all(|&offset| offset < 16));
    }

    #[test]
    fn every_port_is_chosen_once() {
        let range = NodePortRange::parse("30000-30049").expect("valid port range");
        let mut chosen = BTreeSet::new();
        while let Some(candidate) = choose_port(range, &mut |port| !chosen.contains(&port)) {
            assert!(chosen.insert(candidate), "port {candidate} chosen twice");
        }
        assert_eq!(chosen.len(), 50);
    }
}
