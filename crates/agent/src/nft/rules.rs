//! The rules of a policy's chain.
//!
//! Where a rule is about a few ranges, it becomes a few rules of the kernel, and sets without a name are made only for
//! many: nft reads all of them at every change, and the kernel looks through all of them for each one that it makes.
//! Those that are made are concatenations, of which nft does not read the elements.

use std::fmt::Write as _;
use std::net::IpAddr;

use rhumb_netpol::program::{Peer, Ports, Rule};
use rhumb_netpol::{Direction, Family, Protocol};

use super::names::{self, Way};

/// How many rules of the kernel may stand for one of a policy before its ranges become a set.
const ROWS_MAX: usize = 16;

/// What a packet must be like, without the verdict: any of these. None if nothing can be like that.
pub(super) fn matches(rule: &Rule, direction: Direction, way: Way) -> Vec<String> {
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
            rows.push(format!("{peer}{port}"));
        }
    }
    rows
}

/// Which fields of a packet the ends of its connection are in.
struct Sides {
    peer: &'static str,
    destination: &'static str,
    port: &'static str,
}

impl Sides {
    fn new(direction: Direction, way: Way) -> Sides {
        let (source, destination, port) = match way {
            Way::There => ("saddr", "daddr", "dport"),
            Way::Back => ("daddr", "saddr", "sport"),
        };
        Sides {
            peer: match direction {
                Direction::Ingress => source,
                Direction::Egress => destination,
            },
            destination,
            port,
        }
    }
}

fn peers(rule: &Rule, sides: &Sides) -> Vec<String> {
    let side = sides.peer;
    match &rule.peer {
        Peer::In(set) => {
            let header = names::header(set.family);
            vec![format!("{header} {side} @{} ", names::Set(*set))]
        }
        Peer::Ranges(ranges) => {
            let ranges = ranges.iter();
            ranges.map(|range| one_range(*range, side)).collect()
        }
        Peer::Anyone => match (rule.family, &rule.ports) {
            (Some(family), Ports::Any | Ports::All(_) | Ports::Ranges(..)) => {
                vec![format!("meta nfproto {} ", names::nfproto(family))]
            }
            // The set is of one family.
            (Some(_), Ports::In(_)) | (None, _) => vec![String::new()],
        },
    }
}

fn one_range((first, last): (IpAddr, IpAddr), side: &str) -> String {
    let family = family(first);
    if is_everything(first, last) {
        return format!("meta nfproto {} ", names::nfproto(family));
    }
    format!("{} {side} {} ", names::header(family), span(first, last))
}

fn gathered_peers(peer: &Peer, sides: &Sides) -> Option<Vec<String>> {
    let Peer::Ranges(ranges) = peer else {
        return None;
    };
    let family = family(ranges.first()?.0);
    let proto = names::nfproto(family);
    let mut text = format!(
        "meta nfproto . {} {} {{ ",
        names::header(family),
        sides.peer
    );
    for (index, (first, last)) in ranges.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{proto} . {}", span(*first, *last));
    }
    text.push_str(" } ");
    Some(vec![text])
}

fn ports(ports: &Ports, sides: &Sides) -> Vec<String> {
    match ports {
        Ports::Any => vec![String::new()],
        Ports::All(protocol) => vec![of_protocol(*protocol)],
        Ports::Ranges(protocol, ranges) => ranges
            .iter()
            .map(|(first, last)| {
                let of = of_protocol(*protocol);
                format!("{of}th {} {} ", sides.port, span(first, last))
            })
            .collect(),
        Ports::In(set) => vec![format!(
            "{} {} . meta l4proto . th {} @{} ",
            names::header(set.family),
            sides.destination,
            sides.port,
            names::Set(*set)
        )],
    }
}

fn gathered_ports(ports: &Ports, sides: &Sides) -> Option<Vec<String>> {
    let Ports::Ranges(protocol, ranges) = ports else {
        return None;
    };
    let protocol = names::protocol(*protocol);
    let mut text = format!("meta l4proto . th {} {{ ", sides.port);
    for (index, (first, last)) in ranges.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{protocol} . {}", span(first, last));
    }
    text.push_str(" } ");
    Some(vec![text])
}

fn of_protocol(protocol: Protocol) -> String {
    format!("meta l4proto {} ", names::protocol(protocol))
}

fn span<T: PartialEq + std::fmt::Display>(first: T, last: T) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first}-{last}")
    }
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
