//! What rules are made of: what they ask of a packet, and what becomes of one that is like that.

use std::fmt;
use std::net::IpAddr;

use rhumb_netpol::{Family, Protocol};

use super::elements::{Braced, Element, Kind, Span};
use super::names::{self, ChainName, SetName};

/// An end of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

/// What can be looked up of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    PacketType,
    Family,
    Protocol,
    Address(Family, Side),
    Port(Side),
}

impl Field {
    pub(super) fn kind(self) -> Kind {
        match self {
            Field::PacketType => Kind::PacketType,
            Field::Family => Kind::Family,
            Field::Protocol => Kind::Protocol,
            Field::Address(family, _) => Kind::of_address(family),
            Field::Port(_) => Kind::Port,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::PacketType => f.write_str("meta pkttype"),
            Field::Family => f.write_str("meta nfproto"),
            Field::Protocol => f.write_str("meta l4proto"),
            Field::Address(family, side) => {
                let side = match side {
                    Side::Source => "saddr",
                    Side::Destination => "daddr",
                };
                write!(f, "{} {side}", names::header(*family))
            }
            Field::Port(Side::Source) => f.write_str("th sport"),
            Field::Port(Side::Destination) => f.write_str("th dport"),
        }
    }
}

/// One or more, of which the values are looked up together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields(pub(super) [Option<Field>; 3]);

impl Fields {
    pub(super) fn iter(self) -> impl Iterator<Item = Field> {
        self.0.into_iter().flatten()
    }
}

impl From<Field> for Fields {
    fn from(field: Field) -> Fields {
        Fields([Some(field), None, None])
    }
}

impl From<[Field; 2]> for Fields {
    fn from([a, b]: [Field; 2]) -> Fields {
        Fields([Some(a), Some(b), None])
    }
}

impl From<[Field; 3]> for Fields {
    fn from(fields: [Field; 3]) -> Fields {
        Fields(fields.map(Some))
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, field) in self.iter().enumerate() {
            let dot = if at == 0 { "" } else { " . " };
            write!(f, "{dot}{field}")?;
        }
        Ok(())
    }
}

/// What a packet must be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Match {
    Family(Family),
    Protocol(Protocol),
    /// The address of that side is in a range, both ends included.
    Address(Side, IpAddr, IpAddr),
    Port(Side, u16, u16),
    /// Only what has come over no router has 255.
    HopLimit(u8),
    Icmp6(u8, u8),
    /// The other end of its connection opened it.
    Reply,
    /// It tells of another connection.
    Related,
    In(Fields, SetName),
    NotIn(Fields, SetName),
    /// In a set that belongs to the rule, and has no name.
    Among(Fields, Vec<Element>),
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Match::Family(family) => write!(f, "meta nfproto {}", names::nfproto(*family)),
            Match::Protocol(protocol) => {
                write!(f, "meta l4proto {}", names::protocol(*protocol))
            }
            Match::Address(side, first, last) => {
                let field = Field::Address(super::rules::family(*first), *side);
                write!(f, "{field} {}", Span(first, last))
            }
            Match::Port(side, first, last) => {
                write!(f, "{} {}", Field::Port(*side), Span(first, last))
            }
            Match::HopLimit(limit) => write!(f, "ip6 hoplimit {limit}"),
            Match::Icmp6(first, last) => write!(f, "icmpv6 type {}", Span(first, last)),
            Match::Reply => f.write_str("ct direction reply"),
            Match::Related => f.write_str("ct state related"),
            Match::In(fields, set) => write!(f, "{fields} @{set}"),
            Match::NotIn(fields, set) => write!(f, "{fields} != @{set}"),
            Match::Among(fields, elements) => write!(f, "{fields} {}", Braced(elements)),
        }
    }
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    /// And comes back if that chain has none.
    Jump(ChainName),
    Goto(ChainName),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Accept => f.write_str("accept"),
            Verdict::Drop => f.write_str("drop"),
            Verdict::Jump(chain) => write!(f, "jump {chain}"),
            Verdict::Goto(chain) => write!(f, "goto {chain}"),
        }
    }
}

/// Where a verdict comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Always(Verdict),
    /// What the map has for a field. If it has nothing, the next rule is asked.
    Mapped(Field, SetName),
}

impl From<Verdict> for End {
    fn from(verdict: Verdict) -> End {
        End::Always(verdict)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Always(verdict) => write!(f, "{verdict}"),
            End::Mapped(field, map) => write!(f, "{field} vmap @{map}"),
        }
    }
}

/// A packet that is like all of this gets the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) matches: Vec<Match>,
    pub(super) end: End,
}

impl Rule {
    pub(super) fn new(matches: impl Into<Vec<Match>>, end: impl Into<End>) -> Rule {
        Rule {
            matches: matches.into(),
            end: end.into(),
        }
    }
}

impl From<Verdict> for Rule {
    fn from(verdict: Verdict) -> Rule {
        Rule::new([], verdict)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.matches {
            write!(f, "{condition} ")?;
        }
        write!(f, "{}", self.end)
    }
}
