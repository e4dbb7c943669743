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

/// A set: `s12-4`.
pub(super) struct Set(pub(super) SetId);

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}-{}", self.0.number, digit(self.0.family))
    }
}

/// The chain of a policy: `p7-in`, and `p7-in-re` for replies.
pub(super) struct Policy(pub(super) ChainId, pub(super) Way);

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Policy(id, way) = self;
        write!(f, "p{}-{}{}", id.number, short(id.direction), way.suffix())
    }
}

/// The chain of a group: `g3-out`, and `g3-out-re` for replies.
pub(super) struct Group(pub(super) GroupId, pub(super) Way);

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Group(id, way) = self;
        write!(f, "g{}-{}{}", id.number, short(id.direction), way.suffix())
    }
}

/// The map by which isolated addresses are found: `ingress4`.
pub(super) struct Dispatch(pub(super) Direction, pub(super) Family);

impl fmt::Display for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", hook(self.0), digit(self.1))
    }
}

/// The chain that all forwarded packets go through.
pub(super) fn hook(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}

/// The chain that it leads to, which decides.
pub(super) fn judge(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "judge-in",
        Direction::Egress => "judge-out",
    }
}

fn short(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "in",
        Direction::Egress => "out",
    }
}

pub(super) fn digit(family: Family) -> char {
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

/// The type of an address.
pub(super) fn address(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4_addr",
        Family::V6 => "ipv6_addr",
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
