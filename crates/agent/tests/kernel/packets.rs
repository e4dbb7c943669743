//! Sends real packets through a router with the rules.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use rhumb_agent::nft::{KernelTable, PodCidrRanges, TableWriteOutcome};
use rhumb_netpol::ruleset::{
    AllowRule, IpSet, IpSetElementType, NodeRuleset, PeerMatch, PolicyGroupChange, PortMatch,
    RulesetDelta,
};
use rhumb_netpol::{Direction, IpFamily, Protocol};

use crate::network_namespace::is_root;
use crate::packet_lab::{
    EstablishedTcpConnection, FENCE_PORT, OPEN, PEER, POD, RoutedPodLab, bound_udp_socket,
};
use crate::test_rulesets::{
    address, block, chain, group, ip, isolated, policy, port, rule, set, tcp, udp,
};

/// One rule for IPv4 and one for IPv6.
fn for_both_families(make: impl Fn(IpFamily, usize) -> AllowRule) -> Vec<AllowRule> {
    vec![make(IpFamily::V4, 0), make(IpFamily::V6, 1)]
}

/// An address range that contains the peer.
fn range_with_peer(family: usize) -> (&'static str, &'static str) {
    [("10.9.1.0", "10.9.1.9"), ("fd09:1::", "fd09:1::9")][family]
}

/// So many ranges without the peer that they become an anonymous set.
fn ranges_without_peer(family: usize) -> Vec<(IpAddr, IpAddr)> {
    let other = |at: usize| match family {
        0 => ip(&format!("10.8.{at}.1")),
        _ => ip(&format!("fd08::{at:x}")),
    };
    (1..30).map(|at| (other(at), other(at))).collect()
}

fn others_and_peer(family: usize) -> Vec<(IpAddr, IpAddr)> {
    let (first, last) = range_with_peer(family);
    [ranges_without_peer(family), vec![(ip(first), ip(last))]].concat()
}

/// In both families: set 1 has the peer, set 2 the pod, set 3 ports of the pod.
fn sets() -> impl Iterator<Item = (rhumb_netpol::ruleset::IpSetId, IpSet)> {
    [IpFamily::V4, IpFamily::V6]
        .into_iter()
        .zip(0..)
        .flat_map(|(family, at)| {
            let named = [
                port(POD[at], Protocol::Udp, 396),
                port(POD[at], Protocol::Tcp, 80),
                port(PEER[at], Protocol::Udp, 81),
            ];
            let of = |number, kind, elements: &[_]| {
                let elements = elements.iter().copied().collect();
                (set(number, family), IpSet { kind, elements })
            };
            [
                of(1, IpSetElementType::Addresses, &[address(PEER[at])]),
                of(2, IpSetElementType::Addresses, &[address(POD[at])]),
                of(3, IpSetElementType::AddressPorts, &named),
            ]
        })
}

#[tokio::test]
async fn rules_pass_only_allowed_packets() {
    if !is_root() {
        return;
    }
    const PORTS: [u16; 6] = [80, 81, 105, 106, 395, 396];
    let anyone = |ports| vec![rule(None, PeerMatch::Any, ports)];
    let ranges = |peers: fn(usize) -> Vec<(IpAddr, IpAddr)>, ports: PortMatch| {
        for_both_families(|family, at| {
            rule(Some(family), PeerMatch::Ranges(peers(at)), ports.clone())
        })
    };
    let in_set = |number, ports: PortMatch| {
        for_both_families(|family, _| {
            rule(
                Some(family),
                PeerMatch::InSet(set(number, family)),
                ports.clone(),
            )
        })
    };
    let many: Vec<(u16, u16)> = (0..30).map(|at| (100 + 10 * at, 105 + 10 * at)).collect();
    let without_peer = [("10.9.1.3", "10.9.1.9"), ("fd09:1::3", "fd09:1::9")];
    let cases: Vec<(&str, Vec<AllowRule>, &[u16])> = vec![
        ("nothing", vec![], &[]),
        ("everything", anyone(PortMatch::Any), &PORTS),
        (
            "another protocol",
            anyone(PortMatch::AllPortsOf(Protocol::Tcp)),
            &[],
        ),
        ("a port", anyone(udp(&[(81, 81)])), &[81]),
        ("a port of another protocol", anyone(tcp(&[(81, 81)])), &[]),
        (
            "a range",
            for_both_families(|_, at| block(&[range_with_peer(at)], udp(&[(80, 105)]))),
            &[80, 81, 105],
        ),
        (
            "a block of others",
            for_both_families(|_, at| block(&[without_peer[at]], PortMatch::Any)),
            &[],
        ),
        (
            "many blocks",
            ranges(others_and_peer, udp(&[(106, 106)])),
            &[106],
        ),
        (
            "many blocks of others",
            ranges(ranges_without_peer, PortMatch::Any),
            &[],
        ),
        (
            "many blocks and ports",
            ranges(others_and_peer, udp(&many)),
            &[105, 395],
        ),
        ("many ports of another protocol", anyone(tcp(&many)), &[]),
        ("a set", in_set(1, udp(&[(80, 81)])), &[80, 81]),
        ("a set of others", in_set(2, PortMatch::Any), &[]),
        (
            "named ports",
            for_both_families(|family, _| {
                rule(
                    Some(family),
                    PeerMatch::Any,
                    PortMatch::InSet(set(3, family)),
                )
            }),
            &[396],
        ),
    ];
    let mut lab = RoutedPodLab::new();
    for (name, rules, reached) in cases {
        let mut program = isolated(Direction::Ingress, &POD, rules);
        program.sets.extend(sets());
        lab.load(&program).await;
        for (family, pod) in POD.iter().enumerate() {
            assert_eq!(lab.reached_ports(family, &PORTS), reached, "{name}, {pod}");
        }
    }
    let of_v6 = rule(Some(IpFamily::V6), PeerMatch::Any, PortMatch::Any);
    lab.load(&isolated(Direction::Ingress, &POD, vec![of_v6]))
        .await;
    assert_eq!(lab.reached_ports(0, &PORTS), [0; 0]);
    assert_eq!(lab.reached_ports(1, &PORTS), PORTS);
}

#[tokio::test]
async fn traffic_of_unknown_pods_is_dropped() {
    if !is_root() {
        return;
    }
    let mut lab = RoutedPodLab::new();
    let local = |addresses: &[&str]| NodeRuleset {
        known_addresses: addresses.iter().map(|address| ip(address)).collect(),
        ..NodeRuleset::default()
    };
    let open = [OPEN[0], OPEN[1]];
    let all = [POD[0], POD[1], OPEN[0], OPEN[1]];
    let held = PodCidrRanges::from_cidrs(["10.9.2.0/24", "fd09:2::/64"]);
    for (program, held, is_open) in [
        (local(&open), &PodCidrRanges::default(), true),
        (local(&open), &held, false),
        (local(&all), &held, true),
    ] {
        lab.kernel.replace(&program, held).await.unwrap();
        for family in 0..2 {
            let reached = lab.reached_ports(family, &[80]);
            assert_eq!(
                reached == [80],
                is_open,
                "{held:?} {:?}",
                program.known_addresses
            );
        }
    }
}

#[tokio::test]
async fn denied_connection_is_cut_in_both_directions_and_resumes_when_allowed() {
    if !is_root() {
        return;
    }
    let mut lab = RoutedPodLab::new();
    lab.load(&NodeRuleset::default()).await;
    let write = async |lab: &mut RoutedPodLab, program: &NodeRuleset| {
        let rewritten = RulesetDelta {
            chains: program.chains.clone(),
            ..RulesetDelta::default()
        };
        let written = lab
            .kernel
            .write(&rewritten, program, &PodCidrRanges::default())
            .await;
        assert_eq!(written.unwrap(), TableWriteOutcome::Updated);
    };
    for family in 0..2 {
        // The isolated endpoint is the server, or the client.
        let (server, client) = (POD[family], PEER[family]);
        for (direction, isolated_end) in [(Direction::Ingress, server), (Direction::Egress, client)]
        {
            let open = |port| {
                let fence = rule(None, PeerMatch::Any, udp(&[(FENCE_PORT, FENCE_PORT)]));
                let rules = vec![rule(None, PeerMatch::Any, tcp(&[(port, port)])), fence];
                isolated(direction, &[isolated_end], rules)
            };
            let (allowed, forbidden) = (open(80), open(81));
            lab.load(&allowed).await;
            let mut connection = EstablishedTcpConnection::new(&lab, family);
            connection.assert_passes_data();
            write(&mut lab, &forbidden).await;
            connection.assert_blocked(&lab, family);
            write(&mut lab, &allowed).await;
            connection.assert_resumed();
            connection.assert_passes_data();
        }
    }
}

/// Allows port 80 and another one.
fn also_open(extra: u16) -> Vec<AllowRule> {
    let open = |port| rule(None, PeerMatch::Any, udp(&[(port, port)]));
    vec![open(extra), open(80)]
}

/// Packets that are always allowed always arrive, and packets that are never allowed never do, whatever else changes.
#[tokio::test]
async fn updates_are_atomic_for_packets() {
    if !is_root() {
        return;
    }
    const ROUNDS: usize = 30;
    let mut lab = RoutedPodLab::new();
    let direction = Direction::Ingress;
    let mut first = isolated(direction, &POD, also_open(90));
    first
        .chains
        .insert(chain(2, direction), policy("q", also_open(91)));
    first
        .groups
        .insert(group(2, direction), vec![chain(2, direction)]);
    lab.load(&first).await;
    let stop = AtomicBool::new(false);
    let [allowed, forbidden] =
        [80, 81].map(|port| lab.pod.run_inside(|| bound_udp_socket(POD[0], port)));
    std::thread::scope(|scope| {
        let sender = lab.peer.run_inside(|| bound_udp_socket(PEER[0], 0));
        let stopped = &stop;
        let traffic = scope.spawn(move || {
            let mut sent = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                sender
                    .send_to(b"no", SocketAddr::new(ip(POD[0]), 81))
                    .unwrap();
                sender
                    .send_to(&sent.to_be_bytes(), SocketAddr::new(ip(POD[0]), 80))
                    .unwrap();
                let mut got = [0; 8];
                allowed.recv(&mut got).expect("allowed packet arrives");
                assert_eq!(u64::from_be_bytes(got), sent);
                sent += 1;
            }
            sent
        });
        let changing = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(change(&mut lab.kernel, first, ROUNDS));
            stop.store(true, Ordering::Relaxed);
        });
        // If one thread fails, the other must stop too.
        let changed = changing.join();
        stop.store(true, Ordering::Relaxed);
        let sent = traffic.join().expect("all allowed packets arrived");
        changed.expect("the kernel accepted all changes");
        assert!(sent > ROUNDS as u64, "{sent}");
    });
    assert_eq!(lab.reached_ports(1, &[80, 81]), [80]);
    forbidden.set_nonblocking(true).unwrap();
    assert!(
        forbidden.recv(&mut [0]).is_err(),
        "a forbidden packet arrived"
    );
}

/// Repeats every kind of change that affects the pod: its policies, its group, new and removed groups, and a
/// replacement of the table.
async fn change(kernel: &mut KernelTable, mut program: NodeRuleset, rounds: usize) {
    let direction = Direction::Ingress;
    let held = PodCidrRanges::default();
    let redirect = |before, after| {
        let moved = PolicyGroupChange {
            before: Some(before),
            after: Some(after),
        };
        POD.map(|pod| ((direction, ip(pod)), moved)).into()
    };
    let (first, second) = (group(1, direction), group(2, direction));
    for round in 0..rounds as u64 {
        let extra = u16::try_from(100 + round).unwrap();
        let rewritten = [1, 2].map(|at| (chain(at, direction), policy("p", also_open(extra))));
        let (new, newer) = (
            group(10 + 2 * round, direction),
            group(11 + 2 * round, direction),
        );
        let come = chain(10 + round, direction);
        let steps = [
            RulesetDelta {
                chains: rewritten.into(),
                ..RulesetDelta::default()
            },
            RulesetDelta {
                dispatch: redirect(first, second),
                ..RulesetDelta::default()
            },
            RulesetDelta {
                groups: [(new, vec![chain(2, direction)])].into(),
                dispatch: redirect(second, new),
                ..RulesetDelta::default()
            },
            RulesetDelta {
                chains: [(come, policy("come", also_open(extra)))].into(),
                groups: [(newer, vec![come])].into(),
                dispatch: redirect(new, newer),
                removed_groups: vec![new],
                ..RulesetDelta::default()
            },
            RulesetDelta {
                dispatch: redirect(newer, first),
                removed_groups: vec![newer],
                removed_chains: vec![come],
                ..RulesetDelta::default()
            },
        ];
        for changes in steps {
            program.apply(&changes);
            let written = kernel.write(&changes, &program, &held).await;
            assert_eq!(written.unwrap(), TableWriteOutcome::Updated);
        }
        kernel.replace(&program, &held).await.unwrap();
    }
}

#[tokio::test]
async fn node_reaches_its_isolated_pods() {
    if !is_root() {
        return;
    }
    let lab = RoutedPodLab::new();
    let everything = isolated(Direction::Ingress, &POD, vec![]);
    lab.router
        .kernel()
        .replace(&everything, &PodCidrRanges::default())
        .await
        .unwrap();
    // The router reaches its pod: neighbour discovery works, and its own packets are not forwarded.
    let receiver = lab.pod.run_inside(|| bound_udp_socket(POD[1], 80));
    lab.router.run_inside(|| {
        let sender = UdpSocket::bind("[::]:0").unwrap();
        sender
            .send_to(b"x", SocketAddr::new(ip(POD[1]), 80))
            .unwrap();
    });
    receiver.recv(&mut [0]).expect("the node reaches its pod");
}
