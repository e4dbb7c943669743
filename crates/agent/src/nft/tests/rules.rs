//! Translation of policy rules to nftables matches.

use rhumb_netpol::ruleset::{AllowRule, PeerMatch, PortMatch};
use rhumb_netpol::{Direction, IpFamily, Protocol};

use super::super::names::ConntrackDirection;
use super::super::policy_rule_matches::rule_matches;
use super::{CLIENTS, WEB, ip, rule};

/// The matches in nft syntax.
fn rows(
    rule: &AllowRule,
    direction: Direction,
    conntrack_direction: ConntrackDirection,
) -> Vec<String> {
    let rows = rule_matches(rule, direction, conntrack_direction).into_iter();
    rows.map(|row| {
        let words: Vec<String> = row.iter().map(ToString::to_string).collect();
        words.join(" ")
    })
    .collect()
}

#[test]
fn every_rule_is_rendered_for_each_direction_and_conntrack_direction() {
    use ConntrackDirection::{Original, Reply};
    use Direction::{Egress, Ingress};
    let v4 = Some(IpFamily::V4);
    let block = |first: &str, last: &str| PeerMatch::Ranges(vec![(ip(first), ip(last))]);
    let tcp_80 = || PortMatch::Ranges(Protocol::Tcp, vec![(80, 80)]);
    for (rule, direction, conntrack_direction, expected) in [
        (
            rule(None, PeerMatch::Any, PortMatch::Any),
            Ingress,
            Original,
            vec![""],
        ),
        (
            rule(v4, PeerMatch::Any, PortMatch::Any),
            Ingress,
            Original,
            vec!["meta nfproto ipv4"],
        ),
        (
            rule(None, PeerMatch::Any, PortMatch::AllPortsOf(Protocol::Sctp)),
            Egress,
            Original,
            vec!["meta l4proto sctp"],
        ),
        (
            rule(None, PeerMatch::Any, tcp_80()),
            Egress,
            Reply,
            vec!["meta l4proto tcp th sport 80"],
        ),
        (
            rule(v4, PeerMatch::InSet(CLIENTS), tcp_80()),
            Ingress,
            Original,
            vec!["ip saddr @s1-4 meta l4proto tcp th dport 80"],
        ),
        (
            rule(v4, PeerMatch::InSet(CLIENTS), tcp_80()),
            Ingress,
            Reply,
            vec!["ip daddr @s1-4 meta l4proto tcp th sport 80"],
        ),
        (
            rule(v4, PeerMatch::InSet(CLIENTS), tcp_80()),
            Egress,
            Original,
            vec!["ip daddr @s1-4 meta l4proto tcp th dport 80"],
        ),
        (
            rule(v4, PeerMatch::InSet(CLIENTS), tcp_80()),
            Egress,
            Reply,
            vec!["ip saddr @s1-4 meta l4proto tcp th sport 80"],
        ),
        // Ports are those of the destination, whichever side the peer is on.
        (
            rule(Some(IpFamily::V6), PeerMatch::Any, PortMatch::InSet(WEB)),
            Ingress,
            Original,
            vec!["ip6 daddr . meta l4proto . th dport @s2-6"],
        ),
        (
            rule(Some(IpFamily::V6), PeerMatch::Any, PortMatch::InSet(WEB)),
            Ingress,
            Reply,
            vec!["ip6 saddr . meta l4proto . th sport @s2-6"],
        ),
        (
            rule(Some(IpFamily::V6), PeerMatch::Any, PortMatch::InSet(WEB)),
            Egress,
            Original,
            vec!["ip6 daddr . meta l4proto . th dport @s2-6"],
        ),
        (
            rule(v4, block("0.0.0.0", "255.255.255.255"), PortMatch::Any),
            Ingress,
            Original,
            vec!["meta nfproto ipv4"],
        ),
        (
            rule(
                Some(IpFamily::V6),
                block("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
                tcp_80(),
            ),
            Ingress,
            Original,
            vec!["meta nfproto ipv6 meta l4proto tcp th dport 80"],
        ),
        (
            rule(v4, block("10.0.0.0", "10.0.0.3"), PortMatch::Any),
            Egress,
            Reply,
            vec!["ip saddr 10.0.0.0-10.0.0.3"],
        ),
        (
            rule(
                v4,
                PeerMatch::Ranges(vec![
                    (ip("10.0.0.1"), ip("10.0.0.1")),
                    (ip("10.0.0.3"), ip("10.0.0.4")),
                ]),
                PortMatch::Ranges(Protocol::Udp, vec![(1, 2), (4, 4)]),
            ),
            Ingress,
            Original,
            vec![
                "ip saddr 10.0.0.1 meta l4proto udp th dport 1-2",
                "ip saddr 10.0.0.1 meta l4proto udp th dport 4",
                "ip saddr 10.0.0.3-10.0.0.4 meta l4proto udp th dport 1-2",
                "ip saddr 10.0.0.3-10.0.0.4 meta l4proto udp th dport 4",
            ],
        ),
        // Empty ranges match nothing.
        (
            rule(v4, PeerMatch::Ranges(vec![]), PortMatch::Any),
            Ingress,
            Original,
            vec![],
        ),
        (
            rule(
                None,
                PeerMatch::Any,
                PortMatch::Ranges(Protocol::Tcp, vec![]),
            ),
            Ingress,
            Original,
            vec![],
        ),
    ] {
        assert_eq!(
            rows(&rule, direction, conntrack_direction),
            expected,
            "{rule:?} {direction:?} {conntrack_direction:?}"
        );
    }
}

#[test]
fn many_ranges_become_one_set() {
    let addresses = |count: u8| {
        let ranges =
            (0..count).map(|at| (ip(&format!("10.0.{at}.0")), ip(&format!("10.0.{at}.9"))));
        PeerMatch::Ranges(ranges.collect())
    };
    let ports = |count: u16| {
        PortMatch::Ranges(
            Protocol::Tcp,
            (0..count).map(|at| (10 * at, 10 * at + 1)).collect(),
        )
    };
    for (addresses, ports, count, peer_set, port_set) in [
        (addresses(16), ports(1), 16, false, false),
        (addresses(4), ports(4), 16, false, false),
        (addresses(4), ports(5), 4, false, true),
        (addresses(1), ports(17), 1, false, true),
        (addresses(17), ports(1), 1, true, true),
        (addresses(17), ports(2), 1, true, true),
        (addresses(17), PortMatch::Any, 1, true, false),
        (PeerMatch::InSet(CLIENTS), ports(17), 1, false, true),
    ] {
        let rule = rule(Some(IpFamily::V4), addresses, ports);
        let made = rows(&rule, Direction::Ingress, ConntrackDirection::Original);
        assert_eq!(made.len(), count, "{rule:?}");
        let has = |text: &str| made.iter().all(|row| row.contains(text));
        assert_eq!(
            has("meta nfproto . ip saddr { ipv4 . 10.0.0.0-10.0.0.9, "),
            peer_set,
            "{made:?}"
        );
        assert_eq!(
            has("meta l4proto . th dport { tcp . 0-1"),
            port_set,
            "{made:?}"
        );
    }
}
