//! Translates the allow rules of a policy to nftables matches.
//!
//! A rule with a few ranges becomes a few nftables rules; anonymous sets are only used for many ranges, because the
//! kernel scans all existing ones whenever it names a new one.

use std::net::IpAddr;

use rhumb_netpol::ruleset::{AllowRule, PeerMatch, PortMatch};
use rhumb_netpol::{Direction, IpFamily};

use super::names::{ConntrackDirection, SetName};
use super::rule_expressions::{PacketField, PacketMatch, PacketSide};
use super::set_elements::NftSetElement;

/// The most nftables rules for one policy rule before its ranges become an anonymous set.
const MAX_RULES_PER_POLICY_RULE: usize = 16;

/// The alternative match lists of a policy rule, one nftables rule each. Empty if nothing can match.
pub(super) fn rule_matches(
    rule: &AllowRule,
    direction: Direction,
    conntrack_direction: ConntrackDirection,
) -> Vec<Vec<PacketMatch>> {
    let sides = ConnectionSides::new(direction, conntrack_direction);
    let mut peers = peers(rule, &sides);
    let mut ports = ports(&rule.ports, &sides);
    if peers.len() * ports.len() > MAX_RULES_PER_POLICY_RULE {
        ports = port_set_match(&rule.ports, &sides).unwrap_or(ports);
    }
    if peers.len() * ports.len() > MAX_RULES_PER_POLICY_RULE {
        peers = peer_set_match(&rule.peer, &sides).unwrap_or(peers);
    }
    let mut rows = Vec::with_capacity(peers.len() * ports.len());
    for peer in &peers {
        for port in &ports {
            rows.push([peer.as_slice(), port].concat());
        }
    }
    rows
}

/// The packet sides that have the connection's peer and destination.
struct ConnectionSides {
    peer: PacketSide,
    destination: PacketSide,
}

impl ConnectionSides {
    fn new(direction: Direction, conntrack_direction: ConntrackDirection) -> ConnectionSides {
        let (source, destination) = match conntrack_direction {
            ConntrackDirection::Original => (PacketSide::Source, PacketSide::Destination),
            ConntrackDirection::Reply => (PacketSide::Destination, PacketSide::Source),
        };
        ConnectionSides {
            peer: match direction {
                Direction::Ingress => source,
                Direction::Egress => destination,
            },
            destination,
        }
    }
}

fn peers(rule: &AllowRule, sides: &ConnectionSides) -> Vec<Vec<PacketMatch>> {
    match &rule.peer {
        PeerMatch::InSet(set) => {
            let field = PacketField::Address(set.family, sides.peer);
            vec![vec![PacketMatch::InSet(
                field.into(),
                SetName::Shared(*set),
            )]]
        }
        PeerMatch::Ranges(ranges) => {
            let ranges = ranges.iter();
            ranges
                .map(|range| vec![range_match(*range, sides.peer)])
                .collect()
        }
        PeerMatch::Any => match (rule.family, &rule.ports) {
            (Some(family), PortMatch::Any | PortMatch::AllPortsOf(_) | PortMatch::Ranges(..)) => {
                vec![vec![PacketMatch::Family(family)]]
            }
            // The set already implies the family.
            (Some(_), PortMatch::InSet(_)) | (None, _) => vec![vec![]],
        },
    }
}

fn range_match((first, last): (IpAddr, IpAddr), side: PacketSide) -> PacketMatch {
    match is_full_range(first, last) {
        true => PacketMatch::Family(family(first)),
        false => PacketMatch::Address(side, first, last),
    }
}

fn peer_set_match(peer: &PeerMatch, sides: &ConnectionSides) -> Option<Vec<Vec<PacketMatch>>> {
    let PeerMatch::Ranges(ranges) = peer else {
        return None;
    };
    let family = family(ranges.first()?.0);
    let fields = [
        PacketField::Family,
        PacketField::Address(family, sides.peer),
    ];
    let ranges = ranges.iter();
    let elements = ranges.map(|(first, last)| NftSetElement::FamilyRange(*first, *last));
    Some(vec![vec![PacketMatch::InAnonymousSet(
        fields.into(),
        elements.collect(),
    )]])
}

fn ports(ports: &PortMatch, sides: &ConnectionSides) -> Vec<Vec<PacketMatch>> {
    match ports {
        PortMatch::Any => vec![vec![]],
        PortMatch::AllPortsOf(protocol) => vec![vec![PacketMatch::Protocol(*protocol)]],
        PortMatch::Ranges(protocol, ranges) => {
            let ranges = ranges.iter();
            ranges
                .map(|(first, last)| {
                    let of = PacketMatch::Protocol(*protocol);
                    vec![of, PacketMatch::Port(sides.destination, *first, *last)]
                })
                .collect()
        }
        PortMatch::InSet(set) => {
            let fields = [
                PacketField::Address(set.family, sides.destination),
                PacketField::Protocol,
                PacketField::Port(sides.destination),
            ];
            vec![vec![PacketMatch::InSet(
                fields.into(),
                SetName::Shared(*set),
            )]]
        }
    }
}

fn port_set_match(ports: &PortMatch, sides: &ConnectionSides) -> Option<Vec<Vec<PacketMatch>>> {
    let PortMatch::Ranges(protocol, ranges) = ports else {
        return None;
    };
    let fields = [PacketField::Protocol, PacketField::Port(sides.destination)];
    let ranges = ranges.iter();
    let elements =
        ranges.map(|(first, last)| NftSetElement::ProtocolPorts(*protocol, *first, *last));
    Some(vec![vec![PacketMatch::InAnonymousSet(
        fields.into(),
        elements.collect(),
    )]])
}

pub(super) fn family(address: IpAddr) -> IpFamily {
    match address {
        IpAddr::V4(_) => IpFamily::V4,
        IpAddr::V6(_) => IpFamily::V6,
    }
}

fn is_full_range(first: IpAddr, last: IpAddr) -> bool {
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => first.to_bits() == 0 && last.to_bits() == u32::MAX,
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            first.to_bits() == 0 && last.to_bits() == u128::MAX
        }
        _ => false,
    }
}
