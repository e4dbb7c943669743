//! Types and elements of nftables sets and maps.

use std::fmt;
use std::net::IpAddr;

use rhumb_netpol::{IpFamily, Protocol};

use super::names::{self, ChainName};
use super::policy_rule_matches::family;

/// An nftables data type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NftDataType {
    Mark,
    LinkPacketType,
    Family,
    V4,
    V6,
    Protocol,
    Port,
}

impl NftDataType {
    pub(super) fn of_address(family: IpFamily) -> NftDataType {
        match family {
            IpFamily::V4 => NftDataType::V4,
            IpFamily::V6 => NftDataType::V6,
        }
    }
}

impl fmt::Display for NftDataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NftDataType::Mark => "mark",
            NftDataType::LinkPacketType => "pkt_type",
            NftDataType::Family => "nf_proto",
            NftDataType::V4 => "ipv4_addr",
            NftDataType::V6 => "ipv6_addr",
            NftDataType::Protocol => "inet_proto",
            NftDataType::Port => "inet_service",
        })
    }
}

/// The type of a set or map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NftSetType {
    /// If there is more than one, elements are concatenations.
    pub(super) key: Vec<NftDataType>,
    /// Whether elements are ranges.
    pub(super) is_interval: bool,
    /// Whether each element maps to a verdict.
    pub(super) is_map: bool,
}

impl NftSetType {
    pub(super) fn of(key: &[NftDataType]) -> NftSetType {
        NftSetType {
            key: key.to_vec(),
            is_interval: false,
            is_map: false,
        }
    }

    pub(super) fn of_ranges(key: &[NftDataType]) -> NftSetType {
        NftSetType {
            is_interval: true,
            ..NftSetType::of(key)
        }
    }

    pub(super) fn verdict_map(key: &[NftDataType]) -> NftSetType {
        NftSetType {
            is_map: true,
            ..NftSetType::of(key)
        }
    }
}

impl fmt::Display for NftSetType {
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

/// `meta pkttype` of packets that have more than one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkPacketType {
    Broadcast,
    Multicast,
}

/// An element of a set or map, of any of the types in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NftSetElement {
    Mark(u32),
    LinkPacketType(LinkPacketType),
    Address(IpAddr),
    /// An address as source and destination.
    SelfPair(IpAddr),
    Port(IpAddr, Protocol, u16),
    /// A map element: packets with this address go to the chain.
    Goto(IpAddr, ChainName),
    /// An inclusive address range.
    Range(IpAddr, IpAddr),
    /// An inclusive address range, concatenated with its family.
    FamilyRange(IpAddr, IpAddr),
    /// An inclusive port range, concatenated with its protocol.
    ProtocolPorts(Protocol, u16, u16),
    Icmp(IpFamily),
}

impl fmt::Display for NftSetElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NftSetElement::Mark(mark) => write!(f, "{mark:#x}"),
            NftSetElement::LinkPacketType(LinkPacketType::Broadcast) => f.write_str("broadcast"),
            NftSetElement::LinkPacketType(LinkPacketType::Multicast) => f.write_str("multicast"),
            NftSetElement::Address(address) => write!(f, "{address}"),
            NftSetElement::SelfPair(address) => write!(f, "{address} . {address}"),
            NftSetElement::Port(address, protocol, port) => {
                write!(f, "{address} . {} . {port}", names::protocol(*protocol))
            }
            NftSetElement::Goto(address, chain) => write!(f, "{address} : goto {chain}"),
            NftSetElement::Range(first, last) => write!(f, "{}", RangeDisplay(first, last)),
            NftSetElement::FamilyRange(first, last) => {
                let family = names::nfproto(family(*first));
                write!(f, "{family} . {}", RangeDisplay(first, last))
            }
            NftSetElement::ProtocolPorts(protocol, first, last) => {
                let protocol = names::protocol(*protocol);
                write!(f, "{protocol} . {}", RangeDisplay(first, last))
            }
            NftSetElement::Icmp(IpFamily::V4) => f.write_str("icmp"),
            NftSetElement::Icmp(IpFamily::V6) => f.write_str("ipv6-icmp"),
        }
    }
}

/// Displays `a-b`, or `a` if both are equal.
pub(super) struct RangeDisplay<T>(pub(super) T, pub(super) T);

impl<T: PartialEq + fmt::Display> fmt::Display for RangeDisplay<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeDisplay(first, last) = self;
        match first == last {
            true => write!(f, "{first}"),
            false => write!(f, "{first}-{last}"),
        }
    }
}

/// Displays `{ a, b }`.
pub(super) struct ElementListDisplay<'a>(pub(super) &'a [NftSetElement]);

impl fmt::Display for ElementListDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ ")?;
        for (at, element) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{element}")?;
        }
        f.write_str(" }")
    }
}
