//! Real packets through a router that has the rules.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use rhumb_agent::nft::{Held, Kernel, Written};
use rhumb_netpol::program::{Changes, Peer, Ports, Program, Redirection, Rule, Set, SetKind};
use rhumb_netpol::{Direction, Family, Protocol};

use crate::lab::{Connection, FENCE_PORT, Lab, OPEN, PEER, POD, bound};
use crate::namespace::is_root;
use crate::programs::{
    address, block, chain, group, ip, isolated, policy, port, rule, set, tcp, udp,
};

/// Each rule for both families: of IPv4 and of IPv6.
fn both(make: impl Fn(Family, usize) -> Rule) -> Vec<Rule> {
    vec![make(Family::V4, 0), make(Family::V6, 1)]
}

/// Addresses around that of the peer.
fn around(family: usize) -> (&'static str, &'static str) {
    [("10.9.1.0", "10.9.1.9"), ("fd09:1::", "fd09:1::9")][family]
}

/// So many that they become a set.
fn others(family: usize) -> Vec<(IpAddr, IpAddr)> {
    let other = |at: usize| match family {
        0 => ip(&format!("10.8.{at}.1")),
        _ => ip(&format!("fd08::{at:x}")),
    };
    (1..30).map(|at| (other(at), other(at))).collect()
}

fn others_and_peer(family: usize) -> Vec<(IpAddr, IpAddr)> {
    let (first, last) = around(family);
    [others(family), vec![(ip(first), ip(last))]].concat()
}

/// In both families: 1 has the peer, 2 the pod, 3 ports of the pod.
fn sets() -> impl Iterator<Item = (rhumb_netpol::program::SetId, Set)> {
    [Family::V4, Family::V6]
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
                (set(number, family), Set { kind, elements })
            };
            [
                of(1, SetKind::Addresses, &[address(PEER[at])]),
                of(2, SetKind::Addresses, &[address(POD[at])]),
                of(3, SetKind::Ports, &named),
            ]
        })
}

#[tokio::test]
async fn rules_let_through_what_they_say_and_nothing_else() {
    if !is_root() {
        return;
    }
    const PORTS: [u16; 6] = [80, 81, 105, 106, 395, 396];
    let anyone = |ports| vec![rule(None, Peer::Anyone, ports)];
    let ranges = |peers: fn(usize) -> Vec<(IpAddr, IpAddr)>, ports: Ports| {
        both(|family, at| rule(Some(family), Peer::Ranges(peers(at)), ports.clone()))
    };
    let in_set = |number, ports: Ports| {
        both(|family, _| rule(Some(family), Peer::In(set(number, family)), ports.clone()))
    };
    let many: Vec<(u16, u16)> = (0..30).map(|at| (100 + 10 * at, 105 + 10 * at)).collect();
    let without_peer = [("10.9.1.3", "10.9.1.9"), ("fd09:1::3", "fd09:1::9")];
    let cases: Vec<(&str, Vec<Rule>, &[u16])> = vec![
        ("nothing", vec![], &[]),
        ("everything", anyone(Ports::Any), &PORTS),
        ("another protocol", anyone(Ports::All(Protocol::Tcp)), &[]),
        ("a port", anyone(udp(&[(81, 81)])), &[81]),
        ("a port of another protocol", anyone(tcp(&[(81, 81)])), &[]),
        (
            "a range",
            both(|_, at| block(&[around(at)], udp(&[(80, 105)]))),
            &[80, 81, 105],
        ),
        (
            "a block of others",
            both(|_, at| block(&[without_peer[at]], Ports::Any)),
            &[],
        ),
        (
            "many blocks",
            ranges(others_and_peer, udp(&[(106, 106)])),
            &[106],
        ),
        ("many blocks of others", ranges(others, Ports::Any), &[]),
        (
            "many blocks and ports",
            ranges(others_and_peer, udp(&many)),
            &[105, 395],
        ),
        ("many ports of another protocol", anyone(tcp(&many)), &[]),
        ("a set", in_set(1, udp(&[(80, 81)])), &[80, 81]),
        ("a set of others", in_set(2, Ports::Any), &[]),
        (
            "named ports",
            both(|family, _| rule(Some(family), Peer::Anyone, Ports::In(set(3, family)))),
            &[396],
        ),
    ];
    let mut lab = Lab::new();
    for (name, rules, reached) in cases {
        let mut program = isolated(Direction::Ingress, &POD, rules);
        program.sets.extend(sets());
        lab.load(&program).await;
        for (family, pod) in POD.iter().enumerate() {
            assert_eq!(lab.reached(family, &PORTS), reached, "{name}, {pod}");
        }
    }
    let of_v6 = rule(Some(Family::V6), Peer::Anyone, Ports::Any);
    lab.load(&isolated(Direction::Ingress, &POD, vec![of_v6]))
        .await;
    assert_eq!(lab.reached(0, &PORTS), [0; 0]);
    assert_eq!(lab.reached(1, &PORTS), PORTS);
}

#[tokio::test]
async fn a_pod_that_is_not_known_yet_is_cut_off() {
    if !is_root() {
        return;
    }
    let mut lab = Lab::new();
    let local = |addresses: &[&str]| Program {
        known: addresses.iter().map(|address| ip(address)).collect(),
        ..Program::default()
    };
    let open = [OPEN[0], OPEN[1]];
    let all = [POD[0], POD[1], OPEN[0], OPEN[1]];
    let held = Held::of(["10.9.2.0/24", "fd09:2::/64"]);
    for (program, held, is_open) in [
        (local(&open), &Held::default(), true),
        (local(&open), &held, false),
        (local(&all), &held, true),
    ] {
        lab.kernel.replace(&program, held).await.unwrap();
        for family in 0..2 {
            let reached = lab.reached(family, &[80]);
            assert_eq!(reached == [80], is_open, "{held:?} {:?}", program.known);
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_forbidden_is_cut_in_both_directions_and_goes_on_if_it_is_allowed_again()
 {
    if !is_root() {
        return;
    }
    let mut lab = Lab::new();
    lab.load(&Program::default()).await;
    let write = async |lab: &mut Lab, program: &Program| {
        let rewritten = Changes {
            chains: program.chains.clone(),
            ..Changes::default()
        };
        let written = lab
            .kernel
            .write(&rewritten, program, &Held::default())
            .await;
        assert_eq!(written.unwrap(), Written::Changes);
    };
    for family in 0..2 {
        // The isolated pod is the server, or the client.
        let (server, client) = (POD[family], PEER[family]);
        for (direction, isolated_end) in [(Direction::Ingress, server), (Direction::Egress, client)]
        {
            let open = |port| {
                let fence = rule(None, Peer::Anyone, udp(&[(FENCE_PORT, FENCE_PORT)]));
                let rules = vec![rule(None, Peer::Anyone, tcp(&[(port, port)])), fence];
                isolated(direction, &[isolated_end], rules)
            };
            let (allowed, forbidden) = (open(80), open(81));
            lab.load(&allowed).await;
            let mut connection = Connection::new(&lab, family);
            connection.goes_on();
            write(&mut lab, &forbidden).await;
            connection.is_cut(&lab, family);
            write(&mut lab, &allowed).await;
            connection.is_back();
            connection.goes_on();
        }
    }
}

/// Port 80, and another one.
fn also_open(extra: u16) -> Vec<Rule> {
    let open = |port| rule(None, Peer::Anyone, udp(&[(port, port)]));
    vec![open(extra), open(80)]
}

/// What is allowed all the time always arrives, and what is forbidden all the time never does, whatever changes
/// meanwhile, and by however many changes.
#[tokio::test]
async fn no_packet_sees_half_a_change() {
    if !is_root() {
        return;
    }
    const ROUNDS: usize = 30;
    let mut lab = Lab::new();
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
    let [allowed, forbidden] = [80, 81].map(|port| lab.pod.inside(|| bound(POD[0], port)));
    std::thread::scope(|scope| {
        let sender = lab.peer.inside(|| bound(PEER[0], 0));
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
                allowed.recv(&mut got).expect("what is allowed arrives");
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
        // Whichever fails first ends the other.
        let changed = changing.join();
        stop.store(true, Ordering::Relaxed);
        let sent = traffic.join().expect("all that is allowed arrived");
        changed.expect("all changes were taken");
        assert!(sent > ROUNDS as u64, "{sent}");
    });
    assert_eq!(lab.reached(1, &[80, 81]), [80]);
    forbidden.set_nonblocking(true).unwrap();
    assert!(
        forbidden.recv(&mut [0]).is_err(),
        "what is forbidden arrived"
    );
}

/// Every way to change what is about the pod, over and over: its policies, the group that it is in, groups that come and
/// go, and everything.
async fn change(kernel: &mut Kernel, mut program: Program, rounds: usize) {
    let direction = Direction::Ingress;
    let held = Held::default();
    let redirect = |before, after| {
        let moved = Redirection {
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
            Changes {
                chains: rewritten.into(),
                ..Changes::default()
            },
            Changes {
                dispatch: redirect(first, second),
                ..Changes::default()
            },
            Changes {
                groups: [(new, vec![chain(2, direction)])].into(),
                dispatch: redirect(second, new),
                ..Changes::default()
            },
            Changes {
                chains: [(come, policy("come", also_open(extra)))].into(),
                groups: [(newer, vec![come])].into(),
                dispatch: redirect(new, newer),
                removed_groups: vec![new],
                ..Changes::default()
            },
            Changes {
                dispatch: redirect(newer, first),
                removed_groups: vec![newer],
                removed_chains: vec![come],
                ..Changes::default()
            },
        ];
        for changes in steps {
            program.apply(&changes);
            let written = kernel.write(&changes, &program, &held).await;
            assert_eq!(written.unwrap(), Written::Changes);
        }
        kernel.replace(&program, &held).await.unwrap();
    }
}

#[tokio::test]
async fn a_node_reaches_its_own_pod_however_isolated_it_is() {
    if !is_root() {
        return;
    }
    let lab = Lab::new();
    let everything = isolated(Direction::Ingress, &POD, vec![]);
    lab.router
        .kernel()
        .replace(&everything, &Held::default())
        .await
        .unwrap();
    // The router itself may reach its pod: it finds it by neighbour discovery, and its packets are not forwarded.
    let receiver = lab.pod.inside(|| bound(POD[1], 80));
    lab.router.inside(|| {
        let sender = UdpSocket::bind("[::]:0").unwrap();
        sender
            .send_to(b"x", SocketAddr::new(ip(POD[1]), 80))
            .unwrap();
    });
    receiver.recv(&mut [0]).expect("a node reaches its pod");
}
