//! What a cluster has to hand out: blocks of addresses, and a range of ports.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::addresses::Block;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    IPv4,
    IPv6,
}

impl Family {
    pub const fn as_str(self) -> &'static str {
        match self {
            Family::IPv4 => "IPv4",
            Family::IPv6 => "IPv6",
        }
    }

    pub fn named(name: &str) -> Option<Family> {
        match name {
            "IPv4" => Some(Family::IPv4),
            "IPv6" => Some(Family::IPv6),
            _ => None,
        }
    }

    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() {
            Family::IPv4
        } else {
            Family::IPv6
        }
    }

    pub const fn other(self) -> Family {
        match self {
            Family::IPv4 => Family::IPv6,
            Family::IPv6 => Family::IPv4,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The addresses of services of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    block: Block,
}

impl AddressRange {
    pub fn new(block: Block) -> AddressRange {
        AddressRange {
            block: block.masked(),
        }
    }

    pub fn family(self) -> Family {
        Family::of(self.block.address)
    }

    /// How many addresses can be given out: not the one of the network itself, nor IPv4's broadcast.
    pub fn size(self) -> u128 {
        let (width, unused) = match self.family() {
            Family::IPv4 => (32, 2),
            Family::IPv6 => (128, 1),
        };
        let bits = u32::from(width - self.block.prefix);
        1_u128
            .checked_shl(bits)
            .unwrap_or(u128::MAX)
            .saturating_sub(unused)
    }

    /// An address by its place, the first being 0.
    pub fn nth(self, place: u128) -> Option<IpAddr> {
        if place >= self.size() {
            return None;
        }
        match self.block.address {
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

    /// Whether the address is of this network, be it one that can be given out or not.
    pub fn covers(self, address: IpAddr) -> bool {
        let prefix = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        self.block.contains(Block { address, prefix })
    }

    /// The place of an address; `None` if it cannot be given out.
    pub fn place(self, address: IpAddr) -> Option<u128> {
        let place = match (self.block.address, address) {
            (IpAddr::V4(base), IpAddr::V4(at)) => {
                u128::from(at.to_bits().checked_sub(base.to_bits())?)
            }
            (IpAddr::V6(base), IpAddr::V6(at)) => at.to_bits().checked_sub(base.to_bits())?,
            _ => return None,
        };
        place.checked_sub(1).filter(|&place| place < self.size())
    }

    /// The first place for addresses that nobody asked for; those before it are left to clients that ask for
    /// one, as long as there are others.
    pub fn dynamic_start(self) -> u128 {
        dynamic_start(self.size(), 16, 256)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.block.fmt(f)
    }
}

fn dynamic_start(size: u128, step: u128, most: u128) -> u128 {
    const LEAST: u128 = 16;
    if size <= LEAST {
        return 0;
    }
    (size / step).clamp(LEAST, most)
}

/// The ports of nodes that services can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    pub const DEFAULT: PortRange = PortRange {
        first: 30000,
        last: 32767,
    };

    /// Reads `30000-32767`, or `30000+2767` with how many follow the first.
    pub fn parse(text: &str) -> Option<PortRange> {
        let (first, last) = if let Some((first, last)) = text.split_once('-') {
            (first.trim().parse().ok()?, last.trim().parse().ok()?)
        } else if let Some((first, more)) = text.split_once('+') {
            let first: u16 = first.trim().parse().ok()?;
            (first, first.checked_add(more.trim().parse().ok()?)?)
        } else {
            let only = text.trim().parse().ok()?;
            (only, only)
        };
        (first > 0 && first <= last).then_some(PortRange { first, last })
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

    /// As [`AddressRange::dynamic_start`].
    pub fn dynamic_start(self) -> usize {
        dynamic_start(self.size() as u128, 32, 128) as usize
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        AddressRange::new(Block::parse_lax(text).expect(text))
    }

    #[test]
    fn ranges_of_addresses_know_their_places() {
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
            assert_eq!(range.place(first), Some(0));
            assert_eq!(range.dynamic_start(), dynamic, "{text}");
            let last = range.nth(size - 1).expect("the last one");
            assert_eq!(range.place(last), Some(size - 1));
            assert_eq!(range.nth(size), None);
        }
        let range = range("10.0.0.0/24");
        for outside in ["10.0.0.0", "10.0.0.255", "10.0.1.1", "fd00::1"] {
            assert_eq!(
                range.place(outside.parse().expect(outside)),
                None,
                "{outside}"
            );
        }
    }

    #[test]
    fn ranges_of_ports_are_read() {
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
            let got = PortRange::parse(text).map(|range| range.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        }
        assert_eq!(PortRange::DEFAULT.size(), 2768);
        assert_eq!(PortRange::DEFAULT.dynamic_start(), 86);
        assert_eq!(PortRange::DEFAULT.nth(2767), Some(32767));
        assert_eq!(PortRange::DEFAULT.nth(2768), None);
    }
}
