//! What things are called in the kernel.

use std::fmt;

use rhumb_netpol::program::{ChainId, GroupId, SetId};
use rhumb_netpol::{Direction, Family, Name, Protocol};

/// What nft takes as a comment.
const COMMENT_CHARACTERS_MAX: usize = 127;

/// Packets of a connection as they were sent first, or of replies to it: those have their ends exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    There,
    Back,
}

pub(super) const WAYS: [Way; 2] = [Way::There, Way::Back];
pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Egress, Direction::Ingress];
pub(super) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

impl Way {
    fn suffix(self) -> &'static str {
        match self {
            Way::There => "",
            Way::Back => "-re",
        }
    }
}

/// Chains of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainName {
    /// All forwarded packets go through it: `ingress`.
    Hook(Direction),
    /// The one that it leads to, which decides: `judge-in`.
    Judge(Direction),
    /// Of a policy: `p7-in`, and `p7-in-re` for replies.
    Policy(ChainId, Way),
    /// Of a group: `g3-out`, and `g3-out-re` for replies.
    Group(GroupId, Way),
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainName::Hook(direction) => f.write_str(long(*direction)),
            ChainName::Judge(direction) => write!(f, "judge-{}", short(*direction)),
            ChainName::Policy(id, way) => {
                write!(f, "p{}-{}{}", id.number, short(id.direction), way.suffix())
            }
            ChainName::Group(id, way) => {
                write!(f, "g{}-{}{}", id.number, short(id.direction), way.suffix())
            }
        }
    }
}

/// Sets and maps of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetName {
    /// By what the table is known again.
    Marker,
    /// What cannot be a pod's: kinds of packets, or addresses of a family.
    Nobodys(Option<Family>),
    /// Addresses that the node gives to its pods.
    Held(Family),
    /// Those that known pods have.
    Known(Family),
    /// Addresses that may reach themselves, as pairs.
    Oneself(Family),
    /// The map by which isolated addresses are found: `ingress4`.
    Dispatch(Direction, Family),
    /// One that policies share: `s12-4`.
    Shared(SetId),
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetName::Marker => f.write_str("marker"),
            SetName::Nobodys(None) => f.write_str("nobodys"),
            SetName::Nobodys(Some(family)) => write!(f, "nobodys{}", digit(*family)),
            SetName::Held(family) => write!(f, "held{}", digit(*family)),
            SetName::Known(family) => write!(f, "known{}", digit(*family)),
            SetName::Oneself(family) => write!(f, "self{}", digit(*family)),
            SetName::Dispatch(direction, family) => {
                write!(f, "{}{}", long(*direction), digit(*family))
            }
            SetName::Shared(id) => write!(f, "s{}-{}", id.number, digit(id.family)),
        }
    }
}

fn long(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}

fn short(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "in",
        Direction::Egress => "out",
    }
}

fn digit(family: Family) -> char {
    match family {
        Family::V4 => '4',
        Family::V6 => '6',
    }
}

/// What the header of a family is called in rules.
pub(super) fn header(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// A family where packets of both are looked at.
pub(super) fn nfproto(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

pub(super) fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

/// The name of a policy for people who look into the kernel, if nft takes it.
pub(super) fn comment(policy: &Name) -> Option<String> {
    let text = policy.to_string();
    let is_plain = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    (text.len() <= COMMENT_CHARACTERS_MAX && text.chars().all(is_plain)).then_some(text)
}
