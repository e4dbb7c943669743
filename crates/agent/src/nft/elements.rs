//! What sets and maps have in them.

use std::fmt;
use std::net::IpAddr;

use rhumb_netpol::{Family, Protocol};

use super::names::{self, ChainName};
use super::rules::family;

/// What a value is, as nftables has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mark,
    PacketType,
    Family,
    V4,
    V6,
    Protocol,
    Port,
}

impl Kind {
    pub(super) fn of_address(family: Family) -> Kind {
        match family {
            Family::V4 => Kind::V4,
            Family::V6 => Kind::V6,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Mark => "mark",
            Kind::PacketType => "pkt_type",
            Kind::Family => "nf_proto",
            Kind::V4 => "ipv4_addr",
            Kind::V6 => "ipv6_addr",
            Kind::Protocol => "inet_proto",
            Kind::Port => "inet_service",
        })
    }
}

/// What elements of a set are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SetType {
    /// Of more than one, elements are concatenations.
    pub(super) key: Vec<Kind>,
    /// Elements are ranges.
    pub(super) is_interval: bool,
    /// Each element leads to a verdict.
    pub(super) is_map: bool,
}

impl SetType {
    pub(super) fn of(key: &[Kind]) -> SetType {
        SetType {
            key: key.to_vec(),
            is_interval: false,
            is_map: false,
        }
    }

    pub(super) fn of_ranges(key: &[Kind]) -> SetType {
        SetType {
            is_interval: true,
            ..SetType::of(key)
        }
    }

    pub(super) fn to_verdicts(key: &[Kind]) -> SetType {
        SetType {
            is_map: true,
            ..SetType::of(key)
        }
    }
}

impl fmt::Display for SetType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("type ")?;
        for (at, kind) in self.key.iter().enumerate() {
            let dot = if at == 0 { "" } else { " . " };
            write!(f, "{dot}{kind}")?;
        }
        f.write_str(if self.is_map { " : verdict;" } else { ";" })?;
        f.write_str(if self.is_interval {
            " flags interval;"
        } else {
            ""
        })
    }
}

/// Packets that are not for one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketType {
    Broadcast,
    Multicast,
}

/// An element of a set or of a map, of each sort that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    Mark(u32),
    PacketType(PacketType),
    Address(IpAddr),
    /// Twice the same address.
    Oneself(IpAddr),
    Port(IpAddr, Protocol, u16),
    /// Where a packet of that address goes on.
    Goto(IpAddr, ChainName),
    /// From the first to the last, both included.
    Range(IpAddr, IpAddr),
    /// With the family before them.
    OfFamily(IpAddr, IpAddr),
    /// Ports of a protocol.
    OfProtocol(Protocol, u16, u16),
    Icmp(Family),
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Mark(mark) => write!(f, "{mark:#x}"),
            Element::PacketType(PacketType::Broadcast) => f.write_str("broadcast"),
            Element::PacketType(PacketType::Multicast) => f.write_str("multicast"),
            Element::Address(address) => write!(f, "{address}"),
            Element::Oneself(address) => write!(f, "{address} . {address}"),
            Element::Port(address, protocol, port) => {
                write!(f, "{address} . {} . {port}", names::protocol(*protocol))
            }
            Element::Goto(address, chain) => write!(f, "{address} : goto {chain}"),
            Element::Range(first, last) => write!(f, "{}", Span(first, last)),
            Element::OfFamily(first, last) => {
                let family = names::nfproto(family(*first));
                write!(f, "{family} . {}", Span(first, last))
            }
            Element::OfProtocol(protocol, first, last) => {
                let protocol = names::protocol(*protocol);
                write!(f, "{protocol} . {}", Span(first, last))
            }
            Element::Icmp(Family::V4) => f.write_str("icmp"),
            Element::Icmp(Family::V6) => f.write_str("ipv6-icmp"),
        }
    }
}

/// `a-b`, or `a` if it is all.
pub(super) struct Span<T>(pub(super) T, pub(super) T);

impl<T: PartialEq + fmt::Display> fmt::Display for Span<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span(first, last) = self;
        match first == last {
            true => write!(f, "{first}"),
            false => write!(f, "{first}-{last}"),
        }
    }
}

/// `{ a, b }`.
pub(super) struct Braced<'a>(pub(super) &'a [Element]);

impl fmt::Display for Braced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ ")?;
        for (at, element) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{element}")?;
        }
        f.write_str(" }")
    }
}
