//! Blocks of addresses, read bit by bit.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first bits that addresses of a family have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    is_v6: bool,
    /// From the top of 128 bits in both families.
    bits: u128,
    length: u32,
    /// Whether bits beyond the block were written too.
    pub(crate) is_ambiguous: bool,
}

impl Block {
    pub(crate) fn read(text: &str) -> Option<Block> {
        let (address, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        let (is_v6, bits, length) = match read_v4(address) {
            Some(address) => (false, top_of(IpAddr::V4(address)), length),
            None => match address.parse::<Ipv6Addr>().ok()?.to_ipv4_mapped() {
                Some(address) => (false, top_of(IpAddr::V4(address)), length.checked_sub(96)?),
                None => (true, top_of(address.parse().ok()?), length),
            },
        };
        let longest = if is_v6 { 128 } else { 32 };
        (length <= longest).then_some(Block {
            is_v6,
            bits: bits & mask(length),
            length,
            is_ambiguous: bits & !mask(length) != 0,
        })
    }

    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        self.is_v6 == address.is_ipv6() && top_of(address) & mask(self.length) == self.bits
    }

    /// Whether all of another block is in this one.
    pub(crate) fn covers(&self, other: &Block) -> bool {
        self.is_v6 == other.is_v6
            && self.length <= other.length
            && other.bits & mask(self.length) == self.bits
    }

    /// Whether there is more in it than in all of these together.
    pub(crate) fn has_rest(&self, excepts: &[Block]) -> bool {
        if excepts.iter().any(|except| except.covers(self)) {
            return false;
        }
        if !excepts.iter().any(|except| self.covers(except)) {
            return true;
        }
        let length = self.length + 1;
        let upper = self.bits | (1 << (128 - length));
        let half = |bits| Block {
            bits,
            length,
            ..*self
        };
        half(self.bits).has_rest(excepts) || half(upper).has_rest(excepts)
    }
}

/// Four decimal numbers, however many zeros are before them.
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

fn top_of(address: IpAddr) -> u128 {
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
