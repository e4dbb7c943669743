//! Handwritten rulesets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_netpol::ruleset::{
    AllowRule, IpSet, IpSetElement, IpSetElementType, IpSetId, NodeRuleset, PeerMatch, PolicyChain,
    PolicyChainId, PolicyGroupId, PortMatch,
};
use rhumb_netpol::{Direction, IpFamily, NamespacedName, Protocol};

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn set(number: u64, family: IpFamily) -> IpSetId {
    IpSetId { number, family }
}

pub(crate) fn chain(number: u64, direction: Direction) -> PolicyChainId {
    PolicyChainId { number, direction }
}

pub(crate) fn group(number: u64, direction: Direction) -> PolicyGroupId {
    PolicyGroupId { number, direction }
}

pub(crate) fn address(text: &str) -> IpSetElement {
    IpSetElement {
        address: ip(text),
        port: None,
    }
}

pub(crate) fn port(text: &str, protocol: Protocol, port: u16) -> IpSetElement {
    IpSetElement {
        address: ip(text),
        port: Some((protocol, port)),
    }
}

pub(crate) fn policy(name: &str, rules: Vec<AllowRule>) -> PolicyChain {
    PolicyChain {
        policy: NamespacedName::new("a", name),
        rules,
    }
}

fn family(of: IpAddr) -> IpFamily {
    match of {
        IpAddr::V4(_) => IpFamily::V4,
        IpAddr::V6(_) => IpFamily::V6,
    }
}

pub(crate) fn rule(of: Option<IpFamily>, peer: PeerMatch, ports: PortMatch) -> AllowRule {
    AllowRule {
        family: of,
        peer,
        ports,
    }
}

pub(crate) fn block(ranges: &[(&str, &str)], ports: PortMatch) -> AllowRule {
    let of = family(ip(ranges[0].0));
    let ranges = ranges.iter().map(|(first, last)| (ip(first), ip(last)));
    rule(Some(of), PeerMatch::Ranges(ranges.collect()), ports)
}

pub(crate) fn tcp(ranges: &[(u16, u16)]) -> PortMatch {
    PortMatch::Ranges(Protocol::Tcp, ranges.to_vec())
}

pub(crate) fn udp(ranges: &[(u16, u16)]) -> PortMatch {
    PortMatch::Ranges(Protocol::Udp, ranges.to_vec())
}

/// A ruleset with one policy that isolates these addresses in one direction, with these rules.
pub(crate) fn isolated(
    direction: Direction,
    addresses: &[&str],
    rules: Vec<AllowRule>,
) -> NodeRuleset {
    let (chain, group) = (chain(1, direction), group(1, direction));
    let addresses = addresses.iter().map(|address| ip(address));
    NodeRuleset {
        chains: BTreeMap::from([(chain, policy("p", rules))]),
        groups: BTreeMap::from([(group, vec![chain])]),
        dispatch: addresses
            .clone()
            .map(|address| ((direction, address), group))
            .collect(),
        known_addresses: addresses.collect(),
        ..NodeRuleset::default()
    }
}

/// A ruleset with all kinds of sets, peers and ports, in both directions and families.
pub(crate) fn varied() -> NodeRuleset {
    let (v4, v6) = (Some(IpFamily::V4), Some(IpFamily::V6));
    let many_blocks: Vec<(String, String)> = (0..40)
        .map(|at| (format!("10.9.{at}.0"), format!("10.9.{at}.99")))
        .collect();
    let many_blocks: Vec<(&str, &str)> = many_blocks
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let many_ports: Vec<(u16, u16)> = (0..40).map(|at| (100 * at, 100 * at + at)).collect();
    let rules = vec![
        rule(None, PeerMatch::Any, PortMatch::Any),
        rule(v4, PeerMatch::Any, PortMatch::Any),
        rule(None, PeerMatch::Any, PortMatch::AllPortsOf(Protocol::Sctp)),
        rule(None, PeerMatch::Any, tcp(&[(0, u16::MAX)])),
        rule(
            v4,
            PeerMatch::InSet(set(1, IpFamily::V4)),
            tcp(&[(80, 80), (443, 445)]),
        ),
        rule(
            v6,
            PeerMatch::InSet(set(1, IpFamily::V6)),
            PortMatch::InSet(set(2, IpFamily::V6)),
        ),
        rule(v4, PeerMatch::Any, PortMatch::InSet(set(2, IpFamily::V4))),
        block(
            &[("10.0.0.0", "10.0.0.5"), ("10.0.0.6", "10.0.0.6")],
            udp(&[(53, 53)]),
        ),
        block(&[("0.0.0.0", "255.255.255.255")], PortMatch::Any),
        block(
            &[("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")],
            tcp(&[(1, 2)]),
        ),
        block(
            &[
                ("::", "::5"),
                ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ],
            PortMatch::Any,
        ),
        block(&many_blocks, tcp(&many_ports)),
        block(&many_blocks, PortMatch::Any),
        rule(v6, PeerMatch::InSet(set(3, IpFamily::V6)), udp(&many_ports)),
    ];
    let addresses = [address("10.1.0.2"), address("10.1.0.3")];
    let ports = [
        port("10.1.0.2", Protocol::Tcp, 80),
        port("10.1.0.2", Protocol::Sctp, 80),
    ];
    let many = (0..500_u32).map(|at| address(&format!("fd00::{at:x}")));
    let long = NamespacedName::new("n".repeat(63), "p".repeat(253));
    let mut program = NodeRuleset {
        sets: BTreeMap::from([
            (
                set(1, IpFamily::V4),
                set_of(IpSetElementType::Addresses, addresses),
            ),
            (
                set(1, IpFamily::V6),
                set_of(IpSetElementType::Addresses, []),
            ),
            (
                set(2, IpFamily::V4),
                set_of(IpSetElementType::AddressPorts, ports),
            ),
            (
                set(2, IpFamily::V6),
                set_of(
                    IpSetElementType::AddressPorts,
                    [port("fd00::2", Protocol::Udp, 53)],
                ),
            ),
            (
                set(3, IpFamily::V6),
                set_of(IpSetElementType::Addresses, many),
            ),
        ]),
        known_addresses: ["10.1.0.2", "fd00::2", "10.1.0.9"].map(ip).into(),
        ..NodeRuleset::default()
    };
    for direction in [Direction::Ingress, Direction::Egress] {
        let chains = [1, 2, 3].map(|number| chain(number, direction));
        program
            .chains
            .insert(chains[0], policy("varied", rules.clone()));
        program.chains.insert(chains[1], policy("nothing", vec![]));
        program.chains.insert(
            chains[2],
            PolicyChain {
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

fn set_of(kind: IpSetElementType, elements: impl IntoIterator<Item = IpSetElement>) -> IpSet {
    IpSet {
        kind,
        elements: elements.into_iter().collect::<BTreeSet<_>>(),
    }
}
