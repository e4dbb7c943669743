//! CIDRs, parsed and compared bit by bit.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A CIDR as a prefix of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReferenceCidr {
    is_v6: bool,
    /// Left-aligned in 128 bits for both families.
    bits: u128,
    length: u32,
    /// Whether the text has bits set beyond the prefix.
    pub(crate) is_ambiguous: bool,
}

impl ReferenceCidr {
    pub(crate) fn parse(text: &str) -> Option<ReferenceCidr> {
        let (address, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        let (is_v6, bits, length) = match read_v4(address) {
            Some(address) => (false, left_aligned_bits(IpAddr::V4(address)), length),
            None => match address.parse::<Ipv6Addr>().ok()?.to_ipv4_mapped() {
                Some(address) => (
                    false,
                    left_aligned_bits(IpAddr::V4(address)),
                    length.checked_sub(96)?,
                ),
                None => (true, left_aligned_bits(address.parse().ok()?), length),
            },
        };
        let longest = if is_v6 { 128 } else { 32 };
        (length <= longest).then_some(ReferenceCidr {
            is_v6,
            bits: bits & mask(length),
            length,
            is_ambiguous: bits & !mask(length) != 0,
        })
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.is_v6 == address.is_ipv6()
            && left_aligned_bits(address) & mask(self.length) == self.bits
    }

    /// Whether this CIDR contains all of another one.
    pub(crate) fn covers(&self, other: &ReferenceCidr) -> bool {
        self.is_v6 == other.is_v6
            && self.length <= other.length
            && other.bits & mask(self.length) == self.bits
    }

    /// Whether it has addresses that are in none of `excepts`.
    pub(crate) fn has_addresses_outside(&self, excepts: &[ReferenceCidr]) -> bool {
        if excepts.iter().any(|except| except.covers(self)) {
            return false;
        }
        if !excepts.iter().any(|except| self.covers(except)) {
            return true;
        }
        let length = self.length + 1;
        let upper = self.bits | (1 << (128 - length));
        let half = |bits| ReferenceCidr {
            bits,
            length,
            ..*self
        };
        half(self.bits).has_addresses_outside(excepts) || half(upper).has_addresses_outside(excepts)
    }
}

/// Four decimal numbers; leading zeros are allowed.
fn read_v4(text: &str) -> Option<Ipv4Addr> {
    let mut numbers = Vec::new();
    for part in text.split('.') {
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        numbers.push(part.parse::<u8>().ok()?);
    }
    let octets: [u8; 4] = numbers.try_into().ok()?;
    Some(Ipv4Addr::from(octets))
}

fn left_aligned_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(length: u32) -> u128 {
    match length {
        0 => 0,
        length => u128::MAX << (128 - length.min(128)),
    }
}
