//! nftables rules: matches on packet fields, and verdicts.

use std::fmt;
use std::net::IpAddr;

use rhumb_netpol::{IpFamily, Protocol};

use super::names::{self, ChainName, SetName};
use super::set_elements::{ElementListDisplay, NftDataType, NftSetElement, RangeDisplay};

/// Source or destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketSide {
    Source,
    Destination,
}

/// A packet field that can be matched or looked up in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketField {
    LinkPacketType,
    Family,
    Protocol,
    Address(IpFamily, PacketSide),
    Port(PacketSide),
}

impl PacketField {
    pub(super) fn kind(self) -> NftDataType {
        match self {
            PacketField::LinkPacketType => NftDataType::LinkPacketType,
            PacketField::Family => NftDataType::Family,
            PacketField::Protocol => NftDataType::Protocol,
            PacketField::Address(family, _) => NftDataType::of_address(family),
            PacketField::Port(_) => NftDataType::Port,
        }
    }
}

impl fmt::Display for PacketField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketField::LinkPacketType => f.write_str("meta pkttype"),
            PacketField::Family => f.write_str("meta nfproto"),
            PacketField::Protocol => f.write_str("meta l4proto"),
            PacketField::Address(family, side) => {
                let side = match side {
                    PacketSide::Source => "saddr",
                    PacketSide::Destination => "daddr",
                };
                write!(f, "{} {side}", names::header(*family))
            }
            PacketField::Port(PacketSide::Source) => f.write_str("th sport"),
            PacketField::Port(PacketSide::Destination) => f.write_str("th dport"),
        }
    }
}

/// One or more fields that are looked up together (an nftables concatenation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConcatenatedFields(pub(super) [Option<PacketField>; 3]);

impl ConcatenatedFields {
    pub(super) fn iter(self) -> impl Iterator<Item = PacketField> {
        self.0.into_iter().flatten()
    }
}

impl From<PacketField> for ConcatenatedFields {
    fn from(field: PacketField) -> ConcatenatedFields {
        ConcatenatedFields([Some(field), None, None])
    }
}

impl From<[PacketField; 2]> for ConcatenatedFields {
    fn from([a, b]: [PacketField; 2]) -> ConcatenatedFields {
        ConcatenatedFields([Some(a), Some(b), None])
    }
}

impl From<[PacketField; 3]> for ConcatenatedFields {
    fn from(fields: [PacketField; 3]) -> ConcatenatedFields {
        ConcatenatedFields(fields.map(Some))
    }
}

impl fmt::Display for ConcatenatedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, field) in self.iter().enumerate() {
            let dot = if at == 0 { "" } else { " . " };
            write!(f, "{dot}{field}")?;
        }
        Ok(())
    }
}

/// A condition on a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PacketMatch {
    Family(IpFamily),
    Protocol(Protocol),
    /// The address of that side is in an inclusive range.
    Address(PacketSide, IpAddr, IpAddr),
    Port(PacketSide, u16, u16),
    /// 255 only for packets that were not routed.
    HopLimit(u8),
    Icmp6(u8, u8),
    /// The packet goes in the reply direction of its connection.
    Reply,
    /// Conntrack state `related`, such as an ICMP error about another connection.
    Related,
    InSet(ConcatenatedFields, SetName),
    NotInSet(ConcatenatedFields, SetName),
    /// In an anonymous set that belongs to the rule.
    InAnonymousSet(ConcatenatedFields, Vec<NftSetElement>),
}

impl fmt::Display for PacketMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketMatch::Family(family) => write!(f, "meta nfproto {}", names::nfproto(*family)),
            PacketMatch::Protocol(protocol) => {
                write!(f, "meta l4proto {}", names::protocol(*protocol))
            }
            PacketMatch::Address(side, first, last) => {
                let field = PacketField::Address(super::policy_rule_matches::family(*first), *side);
                write!(f, "{field} {}", RangeDisplay(first, last))
            }
            PacketMatch::Port(side, first, last) => {
                write!(
                    f,
                    "{} {}",
                    PacketField::Port(*side),
                    RangeDisplay(first, last)
                )
            }
            PacketMatch::HopLimit(limit) => write!(f, "ip6 hoplimit {limit}"),
            PacketMatch::Icmp6(first, last) => {
                write!(f, "icmpv6 type {}", RangeDisplay(first, last))
            }
            PacketMatch::Reply => f.write_str("ct direction reply"),
            PacketMatch::Related => f.write_str("ct state related"),
            PacketMatch::InSet(fields, set) => write!(f, "{fields} @{set}"),
            PacketMatch::NotInSet(fields, set) => write!(f, "{fields} != @{set}"),
            PacketMatch::InAnonymousSet(fields, elements) => {
                write!(f, "{fields} {}", ElementListDisplay(elements))
            }
        }
    }
}

/// An nftables verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NftVerdict {
    Accept,
    Drop,
    /// Evaluation continues after the rule if the chain returns no verdict.
    Jump(ChainName),
    Goto(ChainName),
}

impl fmt::Display for NftVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NftVerdict::Accept => f.write_str("accept"),
            NftVerdict::Drop => f.write_str("drop"),
            NftVerdict::Jump(chain) => write!(f, "jump {chain}"),
            NftVerdict::Goto(chain) => write!(f, "goto {chain}"),
        }
    }
}

/// The verdict of a rule: constant, or from a verdict map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerdictStatement {
    Immediate(NftVerdict),
    /// Looks up the field in a verdict map; if it is not found, evaluation continues with the next rule.
    VerdictMap(PacketField, SetName),
}

impl From<NftVerdict> for VerdictStatement {
    fn from(verdict: NftVerdict) -> VerdictStatement {
        VerdictStatement::Immediate(verdict)
    }
}

impl fmt::Display for VerdictStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerdictStatement::Immediate(verdict) => write!(f, "{verdict}"),
            VerdictStatement::VerdictMap(field, map) => write!(f, "{field} vmap @{map}"),
        }
    }
}

/// A rule: a packet that meets all conditions gets the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NftRule {
    pub(super) matches: Vec<PacketMatch>,
    pub(super) verdict: VerdictStatement,
}

impl NftRule {
    pub(super) fn new(
        matches: impl Into<Vec<PacketMatch>>,
        end: impl Into<VerdictStatement>,
    ) -> NftRule {
        NftRule {
            matches: matches.into(),
            verdict: end.into(),
        }
    }
}

impl From<NftVerdict> for NftRule {
    fn from(verdict: NftVerdict) -> NftRule {
        NftRule::new([], verdict)
    }
}

impl fmt::Display for NftRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.matches {
            write!(f, "{condition} ")?;
        }
        write!(f, "{}", self.verdict)
    }
}
