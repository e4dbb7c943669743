//! The nft commands for a small ruleset and for each kind of delta.

mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_netpol::ruleset::{
    AllowRule, IpSet, IpSetElement, IpSetElementType, IpSetId, NodeRuleset, PeerMatch, PolicyChain,
    PolicyChainId, PolicyGroupChange, PolicyGroupId, PortMatch, RulesetDelta,
};
use rhumb_netpol::{Direction, IpFamily, NamespacedName, Protocol};

use super::{NftTable, PodCidrRanges, TableMarker};

const CLIENTS: IpSetId = IpSetId {
    number: 1,
    family: IpFamily::V4,
};
const WEB: IpSetId = IpSetId {
    number: 2,
    family: IpFamily::V6,
};
const IN: PolicyChainId = PolicyChainId {
    number: 7,
    direction: Direction::Ingress,
};
const OUT: PolicyChainId = PolicyChainId {
    number: 7,
    direction: Direction::Egress,
};
const GROUP_IN: PolicyGroupId = PolicyGroupId {
    number: 3,
    direction: Direction::Ingress,
};
const GROUP_OUT: PolicyGroupId = PolicyGroupId {
    number: 4,
    direction: Direction::Egress,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn table() -> NftTable {
    NftTable::new("t").unwrap()
}

fn address(text: &str) -> IpSetElement {
    IpSetElement {
        address: ip(text),
        port: None,
    }
}

fn port(text: &str, protocol: Protocol, port: u16) -> IpSetElement {
    IpSetElement {
        address: ip(text),
        port: Some((protocol, port)),
    }
}

fn rule(family: Option<IpFamily>, peer: PeerMatch, ports: PortMatch) -> AllowRule {
    AllowRule {
        family,
        peer,
        ports,
    }
}

fn small() -> NodeRuleset {
    let policy = NamespacedName::new("shop", "web");
    let incoming = vec![
        rule(
            Some(IpFamily::V4),
            PeerMatch::InSet(CLIENTS),
            PortMatch::Ranges(Protocol::Tcp, vec![(80, 80), (8000, 8100)]),
        ),
        rule(Some(IpFamily::V6), PeerMatch::Any, PortMatch::InSet(WEB)),
    ];
    let outgoing = vec![rule(
        Some(IpFamily::V4),
        PeerMatch::Ranges(vec![
            (ip("10.0.0.0"), ip("10.0.0.9")),
            (ip("192.0.2.1"), ip("192.0.2.1")),
        ]),
        PortMatch::Any,
    )];
    NodeRuleset {
        sets: BTreeMap::from([
            (
                CLIENTS,
                IpSet {
                    kind: IpSetElementType::Addresses,
                    elements: BTreeSet::from([address("10.1.0.2"), address("10.1.0.3")]),
                },
            ),
            (
                WEB,
                IpSet {
                    kind: IpSetElementType::AddressPorts,
                    elements: BTreeSet::from([port("fd00::2", Protocol::Sctp, 80)]),
                },
            ),
        ]),
        chains: BTreeMap::from([
            (
                IN,
                PolicyChain {
                    policy: policy.clone(),
                    rules: incoming,
                },
            ),
            (
                OUT,
                PolicyChain {
                    policy,
                    rules: outgoing,
                },
            ),
        ]),
        groups: BTreeMap::from([(GROUP_IN, vec![IN]), (GROUP_OUT, vec![OUT])]),
        dispatch: BTreeMap::from([
            ((Direction::Ingress, ip("10.1.0.2")), GROUP_IN),
            ((Direction::Ingress, ip("fd00::2")), GROUP_IN),
            ((Direction::Egress, ip("10.1.0.2")), GROUP_OUT),
        ]),
        known_addresses: BTreeSet::from([ip("10.1.0.2"), ip("10.1.0.9"), ip("fd00::2")]),
    }
}

#[test]
fn small_ruleset_script() {
    let held = PodCidrRanges::from_cidrs(["10.1.0.0/24"]);
    let script = table().replacement_script(&small(), &held, TableMarker::of(0x2a_0002));
    assert_eq!(script.to_string(), include_str!("small.nft"));
}

#[test]
fn each_change_needs_few_commands() {
    check(RulesetDelta::default(), "");
    check(
        RulesetDelta {
            new_sets: BTreeMap::from([
                (CLIENTS, IpSetElementType::Addresses),
                (WEB, IpSetElementType::AddressPorts),
            ]),
            ..RulesetDelta::default()
        },
        "add set inet t s1-4 { type ipv4_addr; }
         add set inet t s2-6 { type ipv6_addr . inet_proto . inet_service; }",
    );
    check(
        RulesetDelta {
            added_elements: BTreeMap::from([(
                WEB,
                vec![
                    port("fd00::3", Protocol::Udp, 53),
                    port("fd00::4", Protocol::Tcp, 53),
                ],
            )]),
            removed_elements: BTreeMap::from([(CLIENTS, vec![address("10.1.0.7")])]),
            ..RulesetDelta::default()
        },
        "delete element inet t s1-4 { 10.1.0.7 }
         add element inet t s2-6 { fd00::3 . udp . 53, fd00::4 . tcp . 53 }",
    );
    check(
        RulesetDelta {
            chains: BTreeMap::from([(OUT, small().chains[&OUT].clone())]),
            ..RulesetDelta::default()
        },
        "add chain inet t p7-out { comment \"shop/web\"; }
         add chain inet t p7-out-re { comment \"shop/web\"; }
         flush chain inet t p7-out
         add rule inet t p7-out ip daddr 10.0.0.0-10.0.0.9 accept
         add rule inet t p7-out ip daddr 192.0.2.1 accept
         flush chain inet t p7-out-re
         add rule inet t p7-out-re ip saddr 10.0.0.0-10.0.0.9 accept
         add rule inet t p7-out-re ip saddr 192.0.2.1 accept",
    );
    check(
        RulesetDelta {
            groups: BTreeMap::from([(GROUP_IN, vec![IN])]),
            ..RulesetDelta::default()
        },
        "add chain inet t g3-in
         add chain inet t g3-in-re
         add rule inet t g3-in ct direction reply goto g3-in-re
         add rule inet t g3-in jump p7-in
         add rule inet t g3-in drop
         add rule inet t g3-in-re jump p7-in-re
         add rule inet t g3-in-re drop",
    );
    check(
        RulesetDelta {
            known_addresses_added: BTreeSet::from([ip("fd00::9"), ip("10.1.0.8")]),
            known_addresses_removed: BTreeSet::from([ip("10.1.0.7")]),
            ..RulesetDelta::default()
        },
        "delete element inet t pods4 { 10.1.0.7 }
         add element inet t pods4 { 10.1.0.8 }
         add element inet t pods6 { fd00::9 }",
    );
    check(
        RulesetDelta {
            removed_groups: vec![GROUP_OUT],
            removed_chains: vec![OUT],
            removed_sets: vec![CLIENTS],
            ..RulesetDelta::default()
        },
        "delete chain inet t g4-out
         delete chain inet t g4-out-re
         delete chain inet t p7-out
         delete chain inet t p7-out-re
         delete set inet t s1-4",
    );
}

#[test]
fn isolated_addresses_may_reach_themselves() {
    // In the resulting ruleset, 10.1.0.2 is isolated in both directions, fd00::2 for ingress, and no other address.
    let other = PolicyGroupId {
        number: 9,
        ..GROUP_IN
    };
    check(
        redirect(&[(
            Direction::Ingress,
            "10.1.0.2",
            moved(Some(other), Some(GROUP_IN)),
        )]),
        "delete element inet t ingress4 { 10.1.0.2 }
         add element inet t ingress4 { 10.1.0.2 : goto g3-in }",
    );
    check(
        redirect(&[(Direction::Ingress, "10.1.0.2", moved(None, Some(GROUP_IN)))]),
        "add element inet t ingress4 { 10.1.0.2 : goto g3-in }",
    );
    check(
        redirect(&[
            (Direction::Ingress, "10.1.0.2", moved(None, Some(GROUP_IN))),
            (Direction::Egress, "10.1.0.2", moved(None, Some(GROUP_OUT))),
        ]),
        "add element inet t egress4 { 10.1.0.2 : goto g4-out }
         add element inet t ingress4 { 10.1.0.2 : goto g3-in }
         add element inet t self4 { 10.1.0.2 . 10.1.0.2 }",
    );
    check(
        redirect(&[(Direction::Egress, "fd00::2", moved(Some(GROUP_OUT), None))]),
        "delete element inet t egress6 { fd00::2 }",
    );
    check(
        redirect(&[
            (Direction::Egress, "fd00::7", moved(Some(GROUP_OUT), None)),
            (Direction::Ingress, "fd00::2", moved(None, Some(GROUP_IN))),
        ]),
        "delete element inet t egress6 { fd00::7 }
         add element inet t ingress6 { fd00::2 : goto g3-in }
         delete element inet t self6 { fd00::7 . fd00::7 }
         add element inet t self6 { fd00::2 . fd00::2 }",
    );
}

#[test]
fn non_pod_addresses_pass_only_while_no_pod_is_isolated() {
    let empty = NodeRuleset::default();
    let mut isolating = NodeRuleset::default();
    let key = (Direction::Ingress, ip("10.1.0.2"));
    isolating.dispatch.insert(key, GROUP_IN);
    let come = redirect(&[(Direction::Ingress, "10.1.0.2", moved(None, Some(GROUP_IN)))]);
    let gone = redirect(&[(Direction::Ingress, "10.1.0.2", moved(Some(GROUP_IN), None))]);
    let other = redirect(&[(Direction::Ingress, "10.1.0.9", moved(None, Some(GROUP_IN)))]);
    let lines = |changes: &RulesetDelta, program: &NodeRuleset| -> Vec<String> {
        let script = update(changes, program, None);
        let about = script.lines().filter(|line| line.contains("non-pod"));
        about.map(str::to_owned).collect()
    };
    let added = [
        "add element inet t non-pod { broadcast, multicast }",
        "add element inet t non-pod4 { 224.0.0.0-239.255.255.255, 255.255.255.255 }",
        "add element inet t non-pod6 { fe80::-febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff, \
         ff00::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff }",
    ];
    assert_eq!(lines(&come, &isolating), added);
    let flushed = ["non-pod", "non-pod4", "non-pod6"].map(|set| format!("flush set inet t {set}"));
    assert_eq!(lines(&gone, &empty), flushed);
    assert_eq!(lines(&other, &isolating), Vec::<String>::new());
    let has_all = |program: &NodeRuleset| {
        let script =
            table().replacement_script(program, &PodCidrRanges::default(), TableMarker::of(1));
        let script = script.to_string();
        added.map(|line| script.lines().any(|it| it == line))
    };
    assert_eq!(has_all(&isolating), [true; 3]);
    assert_eq!(has_all(&empty), [false; 3]);
}

#[test]
fn node_cidrs_are_replaced_in_one_batch() {
    let held = PodCidrRanges::from_cidrs(["10.2.0.0/24", "fd00:2::/64"]);
    assert_eq!(
        update(&RulesetDelta::default(), &small(), Some(&held)),
        "flush set inet t pod-cidrs4\n\
         add element inet t pod-cidrs4 { 10.2.0.0-10.2.0.255 }\n\
         flush set inet t pod-cidrs6\n\
         add element inet t pod-cidrs6 { fd00:2::-fd00:2::ffff:ffff:ffff:ffff }\n"
    );
}

#[test]
fn many_elements_are_split_into_messages_of_one_command() {
    let elements = |count: u32| {
        let addresses = (0..count).map(|at| std::net::Ipv4Addr::from(0x0a00_0000 + at));
        let elements = addresses.map(|address| IpSetElement {
            address: address.into(),
            port: None,
        });
        BTreeMap::from([(CLIENTS, elements.collect())])
    };
    for (count, messages) in [(1, 1), (3_000, 1), (10_000, 3), (100_000, 27)] {
        let changes = RulesetDelta {
            added_elements: elements(count),
            known_addresses_added: BTreeSet::from([ip("fd00::9")]),
            ..RulesetDelta::default()
        };
        let script = table().update_script(TableMarker::of(1), &changes, &small(), None);
        let (_, ends) = script.encode();
        // The marker is checked first, and a known address is added last.
        assert_eq!(ends, [1, 2, 2 + messages, 3 + messages], "{count}");
    }
}

fn moved(before: Option<PolicyGroupId>, after: Option<PolicyGroupId>) -> PolicyGroupChange {
    PolicyGroupChange { before, after }
}

fn redirect(of: &[(Direction, &str, PolicyGroupChange)]) -> RulesetDelta {
    let all = of.iter();
    RulesetDelta {
        dispatch: all
            .map(|(direction, address, moved)| ((*direction, ip(address)), *moved))
            .collect(),
        ..RulesetDelta::default()
    }
}

/// The commands of an update after the marker check.
fn update(changes: &RulesetDelta, program: &NodeRuleset, held: Option<&PodCidrRanges>) -> String {
    let marker = TableMarker::of(0x2a_0002);
    let script = table().update_script(marker, changes, program, held);
    let script = script.to_string();
    let guard =
        "delete element inet t marker { 0x2a0002 }\nadd element inet t marker { 0x2a0002 }\n";
    let rest = script.strip_prefix(guard);
    rest.expect("the script begins with the marker check")
        .to_owned()
}

fn check(changes: RulesetDelta, lines: &str) {
    let script = update(&changes, &small(), None);
    let shown: Vec<&str> = script.lines().collect();
    let expected: Vec<&str> = lines.lines().map(str::trim).collect();
    assert_eq!(shown, expected);
}

#[test]
fn policy_names_are_comments_where_nft_allows_them() {
    use super::names::comment;
    let name = |length: usize| NamespacedName::new("a".repeat(63), "b".repeat(length - 64));
    assert_eq!(
        comment(&NamespacedName::new("shop", "web")).as_deref(),
        Some("shop/web")
    );
    assert_eq!(comment(&name(127)).map(|it| it.len()), Some(127));
    assert_eq!(comment(&name(128)), None);
    for odd in ["a\"b", "a\\b", "a b", "a\nb", "ä"] {
        assert_eq!(comment(&NamespacedName::new("shop", odd)), None, "{odd:?}");
    }
}

#[test]
fn invalid_table_names_are_rejected() {
    for (name, is_fine) in [
        ("rhumb", true),
        ("rhumb-node_2", true),
        ("", false),
        ("2rhumb", false),
        ("-x", false),
        ("a b", false),
        ("a;b", false),
        (&"a".repeat(65), false),
    ] {
        assert_eq!(NftTable::new(name).is_ok(), is_fine, "{name:?}");
    }
}
