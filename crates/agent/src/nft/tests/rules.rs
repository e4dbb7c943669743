//! Rules of policies as rules of the kernel.

use rhumb_netpol::program::{Peer, Ports, Rule};
use rhumb_netpol::{Direction, Family, Protocol};

use super::super::names::Way;
use super::super::rules::matches;
use super::{CLIENTS, WEB, ip, rule};

/// In the words of nft.
fn rows(rule: &Rule, direction: Direction, way: Way) -> Vec<String> {
    let rows = matches(rule, direction, way).into_iter();
    rows.map(|row| {
        let words: Vec<String> = row.iter().map(ToString::to_string).collect();
        words.join(" ")
    })
    .collect()
}

#[test]
fn every_rule_has_a_form_for_each_direction_and_way() {
    use Direction::{Egress, Ingress};
    use Way::{Back, There};
    let v4 = Some(Family::V4);
    let block = |first: &str, last: &str| Peer::Ranges(vec![(ip(first), ip(last))]);
    let tcp_80 = || Ports::Ranges(Protocol::Tcp, vec![(80, 80)]);
    for (rule, direction, way, expected) in [
        (
            rule(None, Peer::Anyone, Ports::Any),
            Ingress,
            There,
            vec![""],
        ),
        (
            rule(v4, Peer::Anyone, Ports::Any),
            Ingress,
            There,
            vec!["meta nfproto ipv4"],
        ),
        (
            rule(None, Peer::Anyone, Ports::All(Protocol::Sctp)),
            Egress,
            There,
            vec!["meta l4proto sctp"],
        ),
        (
            rule(None, Peer::Anyone, tcp_80()),
            Egress,
            Back,
            vec!["meta l4proto tcp th sport 80"],
        ),
        (
            rule(v4, Peer::In(CLIENTS), tcp_80()),
            Ingress,
            There,
            vec!["ip saddr @s1-4 meta l4proto tcp th dport 80"],
        ),
        (
            rule(v4, Peer::In(CLIENTS), tcp_80()),
            Ingress,
            Back,
            vec!["ip daddr @s1-4 meta l4proto tcp th sport 80"],
        ),
        (
            rule(v4, Peer::In(CLIENTS), tcp_80()),
            Egress,
            There,
            vec!["ip daddr @s1-4 meta l4proto tcp th dport 80"],
        ),
        (
            rule(v4, Peer::In(CLIENTS), tcp_80()),
            Egress,
            Back,
            vec!["ip saddr @s1-4 meta l4proto tcp th sport 80"],
        ),
        // Ports are the destination's, whoever the peer is.
        (
            rule(Some(Family::V6), Peer::Anyone, Ports::In(WEB)),
            Ingress,
            There,
            vec!["ip6 daddr . meta l4proto . th dport @s2-6"],
        ),
        (
            rule(Some(Family::V6), Peer::Anyone, Ports::In(WEB)),
            Ingress,
            Back,
            vec!["ip6 saddr . meta l4proto . th sport @s2-6"],
        ),
        (
            rule(Some(Family::V6), Peer::Anyone, Ports::In(WEB)),
            Egress,
            There,
            vec!["ip6 daddr . meta l4proto . th dport @s2-6"],
        ),
        (
            rule(v4, block("0.0.0.0", "255.255.255.255"), Ports::Any),
            Ingress,
            There,
            vec!["meta nfproto ipv4"],
        ),
        (
            rule(
                Some(Family::V6),
                block("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
                tcp_80(),
            ),
            Ingress,
            There,
            vec!["meta nfproto ipv6 meta l4proto tcp th dport 80"],
        ),
        (
            rule(v4, block("10.0.0.0", "10.0.0.3"), Ports::Any),
            Egress,
            Back,
            vec!["ip saddr 10.0.0.0-10.0.0.3"],
        ),
        (
            rule(
                v4,
                Peer::Ranges(vec![
                    (ip("10.0.0.1"), ip("10.0.0.1")),
                    (ip("10.0.0.3"), ip("10.0.0.4")),
                ]),
                Ports::Ranges(Protocol::Udp, vec![(1, 2), (4, 4)]),
            ),
            Ingress,
            There,
            vec![
                "ip saddr 10.0.0.1 meta l4proto udp th dport 1-2",
                "ip saddr 10.0.0.1 meta l4proto udp th dport 4",
                "ip saddr 10.0.0.3-10.0.0.4 meta l4proto udp th dport 1-2",
                "ip saddr 10.0.0.3-10.0.0.4 meta l4proto udp th dport 4",
            ],
        ),
        // Nothing is in no range.
        (
            rule(v4, Peer::Ranges(vec![]), Ports::Any),
            Ingress,
            There,
            vec![],
        ),
        (
            rule(None, Peer::Anyone, Ports::Ranges(Protocol::Tcp, vec![])),
            Ingress,
            There,
            vec![],
        ),
    ] {
        assert_eq!(
            rows(&rule, direction, way),
            expected,
            "{rule:?} {direction:?} {way:?}"
        );
    }
}

#[test]
fn many_ranges_become_one_set() {
    let addresses = |count: u8| {
        let ranges =
            (0..count).map(|at| (ip(&format!("10.0.{at}.0")), ip(&format!("10.0.{at}.9"))));
        Peer::Ranges(ranges.collect())
    };
    let ports = |count: u16| {
        Ports::Ranges(
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
        (addresses(17), Ports::Any, 1, true, false),
        (Peer::In(CLIENTS), ports(17), 1, false, true),
    ] {
        let rule = rule(Some(Family::V4), addresses, ports);
        let made = rows(&rule, Direction::Ingress, Way::There);
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
