//! Names of chains and sets in the kernel, and nft keywords.

use std::fmt;

use rhumb_netpol::ruleset::{IpSetId, PolicyChainId, PolicyGroupId};
use rhumb_netpol::{Direction, IpFamily, NamespacedName, Protocol};

/// nft's limit for comments.
const COMMENT_CHARACTERS_MAX: usize = 127;

/// Conntrack direction: packets in the original direction of a connection, or replies with source and destination
/// swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConntrackDirection {
    Original,
    Reply,
}

pub(super) const CONNTRACK_DIRECTIONS: [ConntrackDirection; 2] =
    [ConntrackDirection::Original, ConntrackDirection::Reply];
pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Egress, Direction::Ingress];
pub(super) const FAMILIES: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

impl ConntrackDirection {
    fn suffix(self) -> &'static str {
        match self {
            ConntrackDirection::Original => "",
            ConntrackDirection::Reply => "-re",
        }
    }
}

/// The name of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainName {
    /// A base chain, which all forwarded packets pass: `ingress`.
    Base(Direction),
    /// The chain that it jumps to, with the fixed rules: `filter-in`.
    Filter(Direction),
    /// The chain of a policy: `p7-in`, and `p7-in-re` for replies.
    Policy(PolicyChainId, ConntrackDirection),
    /// The chain of a policy group: `g3-out`, and `g3-out-re` for replies.
    Group(PolicyGroupId, ConntrackDirection),
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainName::Base(direction) => f.write_str(long(*direction)),
            ChainName::Filter(direction) => write!(f, "filter-{}", short(*direction)),
            ChainName::Policy(id, conntrack_direction) => {
                write!(
                    f,
                    "p{}-{}{}",
                    id.number,
                    short(id.direction),
                    conntrack_direction.suffix()
                )
            }
            ChainName::Group(id, conntrack_direction) => {
                write!(
                    f,
                    "g{}-{}{}",
                    id.number,
                    short(id.direction),
                    conntrack_direction.suffix()
                )
            }
        }
    }
}

/// The name of a set or map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetName {
    /// Identifies the version of the table.
    Marker,
    /// Packet types (`None`) or addresses of a family that do not identify a pod: `non-pod`, `non-pod4`.
    NonPodAddresses(Option<IpFamily>),
    /// The pod CIDRs of the node: `pod-cidrs4`.
    PodCidrs(IpFamily),
    /// Addresses of known pods: `pods4`.
    KnownPods(IpFamily),
    /// Pairs of the same address, for packets of a pod to itself: `self4`.
    SelfPairs(IpFamily),
    /// The verdict map from isolated addresses to policy groups: `ingress4`.
    Dispatch(Direction, IpFamily),
    /// An IP set that policies share: `s12-4`.
    Shared(IpSetId),
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetName::Marker => f.write_str("marker"),
            SetName::NonPodAddresses(None) => f.write_str("non-pod"),
            SetName::NonPodAddresses(Some(family)) => write!(f, "non-pod{}", digit(*family)),
            SetName::PodCidrs(family) => write!(f, "pod-cidrs{}", digit(*family)),
            SetName::KnownPods(family) => write!(f, "pods{}", digit(*family)),
            SetName::SelfPairs(family) => write!(f, "self{}", digit(*family)),
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

fn digit(family: IpFamily) -> char {
    match family {
        IpFamily::V4 => '4',
        IpFamily::V6 => '6',
    }
}

/// nft's keyword for the IP header of a family.
pub(super) fn header(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ip",
        IpFamily::V6 => "ip6",
    }
}

/// nft's name of a family in `meta nfproto`.
pub(super) fn nfproto(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ipv4",
        IpFamily::V6 => "ipv6",
    }
}

pub(super) fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

/// The name of a policy as chain comment, if nft accepts it.
pub(super) fn comment(policy: &NamespacedName) -> Option<String> {
    let text = policy.to_string();
    let is_plain = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    (text.len() <= COMMENT_CHARACTERS_MAX && text.chars().all(is_plain)).then_some(text)
}
