//! Programs that are written by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_netpol::program::{
    Chain, ChainId, Element, GroupId, Peer, Ports, Program, Rule, Set, SetId, SetKind,
};
use rhumb_netpol::{Direction, Family, Name, Protocol};

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn set(number: u64, family: Family) -> SetId {
    SetId { number, family }
}

pub(crate) fn chain(number: u64, direction: Direction) -> ChainId {
    ChainId { number, direction }
}

pub(crate) fn group(number: u64, direction: Direction) -> GroupId {
    GroupId { number, direction }
}

pub(crate) fn address(text: &str) -> Element {
    Element {
        address: ip(text),
        port: None,
    }
}

pub(crate) fn port(text: &str, protocol: Protocol, port: u16) -> Element {
    Element {
        address: ip(text),
        port: Some((protocol, port)),
    }
}

pub(crate) fn policy(name: &str, rules: Vec<Rule>) -> Chain {
    Chain {
        policy: Name::new("a", name),
        rules,
    }
}

fn family(of: IpAddr) -> Family {
    match of {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

pub(crate) fn rule(of: Option<Family>, peer: Peer, ports: Ports) -> Rule {
    Rule {
        family: of,
        peer,
        ports,
    }
}

pub(crate) fn block(ranges: &[(&str, &str)], ports: Ports) -> Rule {
    let of = family(ip(ranges[0].0));
    let ranges = ranges.iter().map(|(first, last)| (ip(first), ip(last)));
    rule(Some(of), Peer::Ranges(ranges.collect()), ports)
}

pub(crate) fn tcp(ranges: &[(u16, u16)]) -> Ports {
    Ports::Ranges(Protocol::Tcp, ranges.to_vec())
}

pub(crate) fn udp(ranges: &[(u16, u16)]) -> Ports {
    Ports::Ranges(Protocol::Udp, ranges.to_vec())
}

/// One policy about one direction of some addresses, with these rules.
pub(crate) fn isolated(direction: Direction, addresses: &[&str], rules: Vec<Rule>) -> Program {
    let (chain, group) = (chain(1, direction), group(1, direction));
    let addresses = addresses.iter().map(|address| ip(address));
    Program {
        chains: BTreeMap::from([(chain, policy("p", rules))]),
        groups: BTreeMap::from([(group, vec![chain])]),
        dispatch: addresses
            .clone()
            .map(|address| ((direction, address), group))
            .collect(),
        known: addresses.collect(),
        ..Program::default()
    }
}

/// Every sort of set, peer and ports, in both directions and families.
pub(crate) fn varied() -> Program {
    let (v4, v6) = (Some(Family::V4), Some(Family::V6));
    let many_blocks: Vec<(String, String)> = (0..40)
        .map(|at| (format!("10.9.{at}.0"), format!("10.9.{at}.99")))
        .collect();
    let many_blocks: Vec<(&str, &str)> = many_blocks
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let many_ports: Vec<(u16, u16)> = (0..40).map(|at| (100 * at, 100 * at + at)).collect();
    let rules = vec![
        rule(None, Peer::Anyone, Ports::Any),
        rule(v4, Peer::Anyone, Ports::Any),
        rule(None, Peer::Anyone, Ports::All(Protocol::Sctp)),
        rule(None, Peer::Anyone, tcp(&[(0, u16::MAX)])),
        rule(
            v4,
            Peer::In(set(1, Family::V4)),
            tcp(&[(80, 80), (443, 445)]),
        ),
        rule(
            v6,
            Peer::In(set(1, Family::V6)),
            Ports::In(set(2, Family::V6)),
        ),
        rule(v4, Peer::Anyone, Ports::In(set(2, Family::V4))),
        block(
            &[("10.0.0.0", "10.0.0.5"), ("10.0.0.6", "10.0.0.6")],
            udp(&[(53, 53)]),
        ),
        block(&[("0.0.0.0", "255.255.255.255")], Ports::Any),
        block(
            &[("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")],
            tcp(&[(1, 2)]),
        ),
        block(
            &[
                ("::", "::5"),
                ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ],
            Ports::Any,
        ),
        block(&many_blocks, tcp(&many_ports)),
        block(&many_blocks, Ports::Any),
        rule(v6, Peer::In(set(3, Family::V6)), udp(&many_ports)),
    ];
    let addresses = [address("10.1.0.2"), address("10.1.0.3")];
    let ports = [
        port("10.1.0.2", Protocol::Tcp, 80),
        port("10.1.0.2", Protocol::Sctp, 80),
    ];
    let many = (0..500_u32).map(|at| address(&format!("fd00::{at:x}")));
    let long = Name::new("n".repeat(63), "p".repeat(253));
    let mut program = Program {
        sets: BTreeMap::from([
            (set(1, Family::V4), set_of(SetKind::Addresses, addresses)),
            (set(1, Family::V6), set_of(SetKind::Addresses, [])),
            (set(2, Family::V4), set_of(SetKind::Ports, ports)),
            (
                set(2, Family::V6),
                set_of(SetKind::Ports, [port("fd00::2", Protocol::Udp, 53)]),
            ),
            (set(3, Family::V6), set_of(SetKind::Addresses, many)),
        ]),
        known: ["10.1.0.2", "fd00::2", "10.1.0.9"].map(ip).into(),
        ..Program::default()
    };
    for direction in [Direction::Ingress, Direction::Egress] {
        let chains = [1, 2, 3].map(|number| chain(number, direction));
        program
            .chains
            .insert(chains[0], policy("varied", rules.clone()));
        program.chains.insert(chains[1], policy("nothing", vec![]));
        program.chains.insert(
            chains[2],
            Chain {
                policy: long.clone(),
                rules: rules.clone(),
            },
        );
        program.groups.insert(group(1, direction), chains.to_vec());
        program.groups.insert(group(2, direction), vec![chains[1]]);
        for (address, number) in [("10.1.0.2", 1), ("fd00::2", 2)] {
            program
                .dispatch
                .insert((direction, ip(address)), group(number, direction));
        }
    }
    program
}

fn set_of(kind: SetKind, elements: impl IntoIterator<Item = Element>) -> Set {
    Set {
        kind,
        elements: elements.into_iter().collect::<BTreeSet<_>>(),
    }
}
