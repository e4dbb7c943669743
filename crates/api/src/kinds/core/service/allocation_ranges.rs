//! Ranges that services are allocated from: cluster IP ranges and the node port range.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ip_addresses::CidrBlock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    IPv4,
    IPv6,
}

impl IpFamily {
    pub const fn as_str(self) -> &'static str {
        match self {
            IpFamily::IPv4 => "IPv4",
            IpFamily::IPv6 => "IPv6",
        }
    }

    pub fn parse(name: &str) -> Option<IpFamily> {
        match name {
            "IPv4" => Some(IpFamily::IPv4),
            "IPv6" => Some(IpFamily::IPv6),
            _ => None,
        }
    }

    pub fn of_address(address: IpAddr) -> IpFamily {
        if address.is_ipv4() {
            IpFamily::IPv4
        } else {
            IpFamily::IPv6
        }
    }

    pub const fn other(self) -> IpFamily {
        match self {
            IpFamily::IPv4 => IpFamily::IPv6,
            IpFamily::IPv6 => IpFamily::IPv4,
        }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Cluster IP range of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceIpRange {
    cidr: CidrBlock,
}

impl ServiceIpRange {
    pub fn new(block: CidrBlock) -> ServiceIpRange {
        ServiceIpRange {
            cidr: block.masked(),
        }
    }

    pub fn family(self) -> IpFamily {
        IpFamily::of_address(self.cidr.address)
    }

    /// Number of allocatable addresses: without the network address and IPv4's broadcast address.
    pub fn size(self) -> u128 {
        let (width, unused) = match self.family() {
            IpFamily::IPv4 => (32, 2),
            IpFamily::IPv6 => (128, 1),
        };
        let bits = u32::from(width - self.cidr.prefix);
        1_u128
            .checked_shl(bits)
            .unwrap_or(u128::MAX)
            .saturating_sub(unused)
    }

    /// Returns the allocatable address at an offset, from 0.
    pub fn nth(self, place: u128) -> Option<IpAddr> {
        if place >= self.size() {
            return None;
        }
        match self.cidr.address {
            IpAddr::V4(base) => {
                let bits = u128::from(base.to_bits()) + 1 + place;
                Some(IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).ok()?)))
            }
            IpAddr::V6(base) => {
                let bits = base.to_bits().checked_add(1)?.checked_add(place)?;
                Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
            }
        }
    }

    /// Returns whether the address is in this network, allocatable or not.
    pub fn covers(self, address: IpAddr) -> bool {
        let prefix = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        self.cidr.contains(CidrBlock { address, prefix })
    }

    /// Offset of an address; `None` if it is not allocatable.
    pub fn offset_of(self, address: IpAddr) -> Option<u128> {
        let place = match (self.cidr.address, address) {
            (IpAddr::V4(base), IpAddr::V4(at)) => {
                u128::from(at.to_bits().checked_sub(base.to_bits())?)
            }
            (IpAddr::V6(base), IpAddr::V6(at)) => at.to_bits().checked_sub(base.to_bits())?,
            _ => return None,
        };
        place.checked_sub(1).filter(|&place| place < self.size())
    }

    /// First offset for dynamic allocation. Lower offsets are preferably kept for static allocation (KEP-3070).
    pub fn dynamic_start(self) -> u128 {
        dynamic_start(self.size(), 16, 256)
    }
}

impl fmt::Display for ServiceIpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cidr.fmt(f)
    }
}

fn dynamic_start(size: u128, step: u128, most: u128) -> u128 {
    const LEAST: u128 = 16;
    if size <= LEAST {
        return 0;
    }
    (size / step).clamp(LEAST, most)
}

/// Node port range (`--service-node-port-range`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePortRange {
    first: u16,
    last: u16,
}

impl NodePortRange {
    pub const DEFAULT: NodePortRange = NodePortRange {
        first: 30000,
        last: 32767,
    };

    /// Parses `30000-32767` (first and last) or `30000+2767` (first and offset of the last).
    pub fn parse(text: &str) -> Option<NodePortRange> {
        let (first, last) = if let Some((first, last)) = text.split_once('-') {
            (first.trim().parse().ok()?, last.trim().parse().ok()?)
        } else if let Some((first, more)) = text.split_once('+') {
            let first: u16 = first.trim().parse().ok()?;
            (first, first.checked_add(more.trim().parse().ok()?)?)
        } else {
            let only = text.trim().parse().ok()?;
            (only, only)
        };
        (first > 0 && first <= last).then_some(NodePortRange { first, last })
    }

    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    pub fn size(self) -> usize {
        usize::from(self.last - self.first) + 1
    }

    pub fn nth(self, place: usize) -> Option<u16> {
        let port = u16::try_from(place).ok()?.checked_add(self.first)?;
        self.contains(port).then_some(port)
    }

    /// Like the `dynamic_start` of a cluster IP range (KEP-3668).
    pub fn dynamic_start(self) -> usize {
        dynamic_start(self.size() as u128, 32, 128) as usize
    }
}

impl fmt::Display for NodePortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> ServiceIpRange {
        ServiceIpRange::new(CidrBlock::parse_lax(text).expect(text))
    }

    #[test]
    fn ip_ranges_convert_offsets_and_addresses() {
        let table = [
            ("10.96.0.0/12", 1_048_574, "10.96.0.1", 256),
            ("10.0.0.0/24", 254, "10.0.0.1", 16),
            ("10.0.0.0/29", 6, "10.0.0.1", 0),
            ("fd00::/112", 65535, "fd00::1", 256),
        ];
        for (text, size, first, dynamic) in table {
            let range = range(text);
            let first: IpAddr = first.parse().expect(first);
            assert_eq!(range.size(), size, "{text}");
            assert_eq!(range.nth(0), Some(first));
            assert_eq!(range.offset_of(first), Some(0));
            assert_eq!(range.dynamic_start(), dynamic, "{text}");
            let last = range.nth(size - 1).expect("the last one");
            assert_eq!(range.offset_of(last), Some(size - 1));
            assert_eq!(range.nth(size), None);
        }
        let range = range("10.0.0.0/24");
        for outside in ["10.0.0.0", "10.0.0.255", "10.0.1.1", "fd00::1"] {
            assert_eq!(
                range.offset_of(outside.parse().expect(outside)),
                None,
                "{outside}"
            );
        }
    }

    #[test]
    fn node_port_ranges_are_parsed() {
        let table = [
            ("30000-32767", Some("30000-32767")),
            ("80", Some("80-80")),
            ("80+10", Some("80-90")),
            ("0-10", None),
            ("20-10", None),
            ("1-70000", None),
            ("x", None),
        ];
        for (text, want) in table {
            let got = NodePortRange::parse(text).map(|range| range.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
        assert_eq!(NodePortRange::DEFAULT.size(), 2768);
        assert_eq!(NodePortRange::DEFAULT.dynamic_start(), 86);
        assert_eq!(NodePortRange::DEFAULT.nth(2767), Some(32767));
        assert_eq!(NodePortRange::DEFAULT.nth(2768), None);
    }
}
