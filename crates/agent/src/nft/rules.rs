//! The rules of a policy's chain.
//!
//! Where a rule is about a few ranges, it becomes a few rules of the kernel, and sets without a name are made only for
//! many: the kernel looks through all of them for each one that it makes.

use std::net::IpAddr;

use rhumb_netpol::program::{Peer, Ports, Rule};
use rhumb_netpol::{Direction, Family};

use super::elements::Element;
use super::expressions::{Field, Match, Side};
use super::names::{SetName, Way};

/// How many rules of the kernel may stand for one of a policy before its ranges become a set.
const ROWS_MAX: usize = 16;

/// What a packet must be like, without the verdict: any of these. None if nothing can be like that.
pub(super) fn matches(rule: &Rule, direction: Direction, way: Way) -> Vec<Vec<Match>> {
    let sides = Sides::new(direction, way);
    let mut peers = peers(rule, &sides);
    let mut ports = ports(&rule.ports, &sides);
    if peers.len() * ports.len() > ROWS_MAX {
        ports = gathered_ports(&rule.ports, &sides).unwrap_or(ports);
    }
    if peers.len() * ports.len() > ROWS_MAX {
        peers = gathered_peers(&rule.peer, &sides).unwrap_or(peers);
    }
    let mut rows = Vec::with_capacity(peers.len() * ports.len());
    for peer in &peers {
        for port in &ports {
            rows.push([peer.as_slice(), port].concat());
        }
    }
    rows
}

/// Which fields of a packet the ends of its connection are in.
struct Sides {
    peer: Side,
    destination: Side,
}

impl Sides {
    fn new(direction: Direction, way: Way) -> Sides {
        let (source, destination) = match way {
            Way::There => (Side::Source, Side::Destination),
            Way::Back => (Side::Destination, Side::Source),
        };
        Sides {
            peer: match direction {
                Direction::Ingress => source,
                Direction::Egress => destination,
            },
            destination,
        }
    }
}

fn peers(rule: &Rule, sides: &Sides) -> Vec<Vec<Match>> {
    match &rule.peer {
        Peer::In(set) => {
            let field = Field::Address(set.family, sides.peer);
            vec![vec![Match::In(field.into(), SetName::Shared(*set))]]
        }
        Peer::Ranges(ranges) => {
            let ranges = ranges.iter();
            ranges
                .map(|range| vec![one_range(*range, sides.peer)])
                .collect()
        }
        Peer::Anyone => match (rule.family, &rule.ports) {
            (Some(family), Ports::Any | Ports::All(_) | Ports::Ranges(..)) => {
                vec![vec![Match::Family(family)]]
            }
            // The set is of one family.
            (Some(_), Ports::In(_)) | (None, _) => vec![vec![]],
        },
    }
}

fn one_range((first, last): (IpAddr, IpAddr), side: Side) -> Match {
    match is_everything(first, last) {
        true => Match::Family(family(first)),
        false => Match::Address(side, first, last),
    }
}

fn gathered_peers(peer: &Peer, sides: &Sides) -> Option<Vec<Vec<Match>>> {
    let Peer::Ranges(ranges) = peer else {
        return None;
    };
    let family = family(ranges.first()?.0);
    let fields = [Field::Family, Field::Address(family, sides.peer)];
    let ranges = ranges.iter();
    let elements = ranges.map(|(first, last)| Element::OfFamily(*first, *last));
    Some(vec![vec![Match::Among(fields.into(), elements.collect())]])
}

fn ports(ports: &Ports, sides: &Sides) -> Vec<Vec<Match>> {
    match ports {
        Ports::Any => vec![vec![]],
        Ports::All(protocol) => vec![vec![Match::Protocol(*protocol)]],
        Ports::Ranges(protocol, ranges) => {
            let ranges = ranges.iter();
            ranges
                .map(|(first, last)| {
                    let of = Match::Protocol(*protocol);
                    vec![of, Match::Port(sides.destination, *first, *last)]
                })
                .collect()
        }
        Ports::In(set) => {
            let fields = [
                Field::Address(set.family, sides.destination),
                Field::Protocol,
                Field::Port(sides.destination),
            ];
            vec![vec![Match::In(fields.into(), SetName::Shared(*set))]]
        }
    }
}

fn gathered_ports(ports: &Ports, sides: &Sides) -> Option<Vec<Vec<Match>>> {
    let Ports::Ranges(protocol, ranges) = ports else {
        return None;
    };
    let fields = [Field::Protocol, Field::Port(sides.destination)];
    let ranges = ranges.iter();
    let elements = ranges.map(|(first, last)| Element::OfProtocol(*protocol, *first, *last));
    Some(vec![vec![Match::Among(fields.into(), elements.collect())]])
}

pub(super) fn family(address: IpAddr) -> Family {
    match address {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

fn is_everything(first: IpAddr, last: IpAddr) -> bool {
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => first.to_bits() == 0 && last.to_bits() == u32::MAX,
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            first.to_bits() == 0 && last.to_bits() == u128::MAX
        }
        _ => false,
    }
}
