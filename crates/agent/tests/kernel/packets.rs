//! Real packets through a router that has the rules.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rhumb_agent::nft::{Held, Kernel, Written};
use rhumb_netpol::program::{Changes, Peer, Ports, Program, Redirection, Rule};
use rhumb_netpol::{Direction, Family, Protocol};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::namespace::{Namespace, is_root, link};
use crate::programs::{
    address, block, chain, group, ip, isolated, policy, port, rule, set, tcp, udp,
};

/// The pod that rules are about, and addresses of the same machine that no rule knows.
const POD: [&str; 2] = ["10.9.2.2", "fd09:2::2"];
const OPEN: [&str; 2] = ["10.9.2.3", "fd09:2::3"];
const PEER: [&str; 2] = ["10.9.1.2", "fd09:1::2"];
/// Long enough for a machine that is busy; what comes is not waited for any longer than it takes.
const PATIENCE: Duration = Duration::from_secs(20);
const FENCE_PORT: u16 = 9;

/// A peer, a router with the rules, and a pod.
struct Lab {
    peer: Namespace,
    router: Namespace,
    pod: Namespace,
    kernel: Kernel,
}

impl Lab {
    fn new() -> Lab {
        let [peer, router, pod] = [(); 3].map(|()| Namespace::new());
        router.forwards();
        link(
            (&peer, "eth0", &["10.9.1.2/24", "fd09:1::2/64"]),
            (&router, "peer", &["10.9.1.1/24", "fd09:1::1/64"]),
        );
        link(
            (
                &pod,
                "eth0",
                &["10.9.2.2/24", "10.9.2.3/24", "fd09:2::2/64", "fd09:2::3/64"],
            ),
            (&router, "pod", &["10.9.2.1/24", "fd09:2::1/64"]),
        );
        for (namespace, routers) in [
            (&peer, ["10.9.1.1", "fd09:1::1"]),
            (&pod, ["10.9.2.1", "fd09:2::1"]),
        ] {
            for router in routers {
                namespace.ip(&format!("route add default via {router}"));
            }
        }
        let kernel = router.kernel();
        let lab = Lab {
            peer,
            router,
            pod,
            kernel,
        };
        lab.make_acquainted();
        lab
    }

    /// Everyone knows where everyone else is from now on, so that no packet waits for that.
    fn make_acquainted(&self) {
        for address in POD.into_iter().chain(OPEN) {
            let family = usize::from(address.contains(':'));
            let receiver = self.pod.inside(|| bound(address, FENCE_PORT));
            let sender = self.peer.inside(|| bound(PEER[family], 0));
            sender.send_to(b"x", (ip(address), FENCE_PORT)).unwrap();
            let (_, from) = receiver
                .recv_from(&mut [0])
                .expect("there are no rules yet");
            receiver.send_to(b"x", from).unwrap();
            sender.recv(&mut [0]).expect("there are no rules yet");
        }
    }

    async fn load(&mut self, program: &Program) {
        self.kernel
            .replace(program, &Held::default())
            .await
            .unwrap();
    }

    /// Which of these ports of the pod a datagram reaches.
    fn reached(&self, family: usize, ports: &[u16]) -> Vec<u16> {
        let receivers = self.pod.inside(|| {
            let bind = |port: &u16| bound(POD[family], *port);
            ports.iter().map(bind).collect::<Vec<_>>()
        });
        let fence = self.pod.inside(|| bound(OPEN[family], FENCE_PORT));
        self.peer.inside(|| {
            stay_on_one_processor();
            let sender = bound(PEER[family], 0);
            for port in ports {
                sender
                    .send_to(b"x", SocketAddr::new(ip(POD[family]), *port))
                    .unwrap();
            }
            sender
                .send_to(b"x", SocketAddr::new(ip(OPEN[family]), FENCE_PORT))
                .unwrap();
        });
        // Packets do not overtake each other: when the last is there, all others are, if they come at all.
        fence.recv(&mut [0]).expect("the last one comes");
        let has_come = |socket: &UdpSocket| {
            socket.set_nonblocking(true).unwrap();
            socket.recv(&mut [0]).is_ok()
        };
        let all = ports.iter().zip(&receivers);
        all.filter(|(_, socket)| has_come(socket))
            .map(|(port, _)| *port)
            .collect()
    }
}

fn bound(address: &str, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((ip(address), port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Packets that one processor sends over virtual links stay in order.
fn stay_on_one_processor() {
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
}

fn peer_set(family: Family) -> rhumb_netpol::program::SetId {
    set(1, family)
}

/// Each rule for both families: of IPv4 and of IPv6.
fn both(make: impl Fn(Family, usize) -> Rule) -> Vec<Rule> {
    vec![make(Family::V4, 0), make(Family::V6, 1)]
}

#[tokio::test]
async fn rules_let_through_what_they_say_and_nothing_else() {
    if !is_root() {
        return;
    }
    let mut lab = Lab::new();
    let around = |family: usize| {
        let (before, after) = [("10.9.1.0", "10.9.1.9"), ("fd09:1::", "fd09:1::9")][family];
        (before, after)
    };
    // So many that they are sets, with others before and after.
    let many = |family: usize| -> Vec<(IpAddr, IpAddr)> {
        let other = |at: usize| match family {
            0 => format!("10.8.{at}.1"),
            _ => format!("fd08::{at:x}"),
        };
        let others = (1..30).map(|at| (ip(&other(at)), ip(&other(at))));
        let (first, last) = around(family);
        others.chain([(ip(first), ip(last))]).collect()
    };
    let many_ports: Vec<(u16, u16)> = (0..30).map(|at| (100 + 10 * at, 105 + 10 * at)).collect();
    let cases: Vec<(&str, Vec<Rule>, Vec<u16>)> = vec![
        ("nothing", vec![], vec![]),
        (
            "everything",
            vec![rule(None, Peer::Anyone, Ports::Any)],
            vec![80, 81, 105, 106, 395, 396],
        ),
        (
            "a protocol",
            vec![rule(None, Peer::Anyone, Ports::All(Protocol::Tcp))],
            vec![],
        ),
        (
            "a port",
            both(|family, _| rule(Some(family), Peer::Anyone, udp(&[(81, 81)]))),
            vec![81],
        ),
        (
            "a port of another protocol",
            vec![rule(None, Peer::Anyone, tcp(&[(81, 81)]))],
            vec![],
        ),
        (
            "a range",
            both(|_, at| block(&[around(at)], udp(&[(80, 105)]))),
            vec![80, 81, 105],
        ),
        (
            "a block without the peer",
            both(|_, at| {
                block(
                    &[[("10.9.1.3", "10.9.1.9"), ("fd09:1::3", "fd09:1::9")][at]],
                    Ports::Any,
                )
            }),
            vec![],
        ),
        (
            "many blocks",
            both(|family, at| rule(Some(family), Peer::Ranges(many(at)), udp(&[(106, 106)]))),
            vec![106],
        ),
        (
            "many blocks, none of them with the peer",
            both(|family, at| {
                rule(
                    Some(family),
                    Peer::Ranges(many(at)[..29].to_vec()),
                    Ports::Any,
                )
            }),
            vec![],
        ),
        (
            "many ports",
            both(|family, at| rule(Some(family), Peer::Ranges(many(at)), udp(&many_ports))),
            vec![105, 395],
        ),
        (
            "many ports of another protocol",
            vec![rule(None, Peer::Anyone, tcp(&many_ports))],
            vec![],
        ),
        (
            "a set",
            both(|family, _| rule(Some(family), Peer::In(peer_set(family)), udp(&[(80, 81)]))),
            vec![80, 81],
        ),
        (
            "a set without the peer",
            both(|family, _| rule(Some(family), Peer::In(set(2, family)), Ports::Any)),
            vec![],
        ),
        (
            "named ports",
            both(|family, _| rule(Some(family), Peer::Anyone, Ports::In(set(3, family)))),
            vec![396],
        ),
        (
            "one family",
            vec![rule(Some(Family::V6), Peer::Anyone, Ports::Any)],
            vec![],
        ),
    ];
    let elements = |program: &mut Program| {
        use rhumb_netpol::program::{Set, SetKind};
        for (family, at) in [(Family::V4, 0), (Family::V6, 1)] {
            let mut add = |number, kind, elements: Vec<_>| {
                let set_ = Set {
                    kind,
                    elements: elements.into_iter().collect(),
                };
                program.sets.insert(set(number, family), set_);
            };
            add(1, SetKind::Addresses, vec![address(PEER[at])]);
            add(2, SetKind::Addresses, vec![address(POD[at])]);
            let named = [
                port(POD[at], Protocol::Udp, 396),
                port(POD[at], Protocol::Tcp, 80),
                port(PEER[at], Protocol::Udp, 81),
            ];
            add(3, SetKind::Ports, named.to_vec());
        }
    };
    for (name, rules, reached) in cases {
        let mut program = isolated(Direction::Ingress, &POD, rules);
        elements(&mut program);
        lab.load(&program).await;
        for (family, pod) in POD.iter().enumerate() {
            let expected = match (name, family) {
                ("one family", 1) => vec![80, 81, 105, 106, 395, 396],
                _ => reached.clone(),
            };
            assert_eq!(
                lab.reached(family, &[80, 81, 105, 106, 395, 396]),
                expected,
                "{name}, {pod}"
            );
        }
    }
}

#[tokio::test]
async fn a_pod_that_is_not_known_yet_is_cut_off() {
    if !is_root() {
        return;
    }
    let mut lab = Lab::new();
    let local = |addresses: &[&str]| Program {
        local: addresses.iter().map(|address| ip(address)).collect(),
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
            assert_eq!(reached == [80], is_open, "{held:?} {:?}", program.local);
        }
    }
}

/// Both ends of a connection.
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn new(lab: &Lab, family: usize) -> Connection {
        let listener = lab
            .pod
            .inside(|| TcpListener::bind((ip(POD[family]), 80)).unwrap());
        let to = listener.local_addr().unwrap();
        let client = lab
            .peer
            .inside(|| TcpStream::connect_timeout(&to, PATIENCE).unwrap());
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            end.set_nodelay(true).unwrap();
        }
        Connection { client, server }
    }

    fn goes_on(&mut self) {
        let (client, server) = (&mut self.client, &mut self.server);
        let mut byte = [0];
        client.write_all(b"a").unwrap();
        server
            .read_exact(&mut byte)
            .expect("what the client says arrives");
        server.write_all(b"b").unwrap();
        client
            .read_exact(&mut byte)
            .expect("what the server says arrives");
    }

    /// What either end writes does not arrive, though a packet is there that was sent later.
    fn is_cut(&mut self, lab: &Lab, family: usize) {
        lab.peer.inside(|| {
            stay_on_one_processor();
            self.client.write_all(b"a").unwrap();
            self.server.write_all(b"b").unwrap();
        });
        lab.reached(family, &[]);
        for mut end in [&self.client, &self.server] {
            end.set_nonblocking(true).unwrap();
            assert!(end.read(&mut [0]).is_err());
            end.set_nonblocking(false).unwrap();
        }
    }

    /// What was held up arrives, as both ends send it again.
    fn is_back(&mut self) {
        let mut byte = [0];
        self.server
            .read_exact(&mut byte)
            .expect("what the client said arrives");
        self.client
            .read_exact(&mut byte)
            .expect("what the server said arrives");
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

/// What is allowed all the time always arrives, and what is forbidden all the time never does, whatever changes
/// meanwhile, and by however many changes.
#[tokio::test]
async fn no_packet_sees_half_a_change() {
    if !is_root() {
        return;
    }
    const ROUNDS: usize = 60;
    let mut lab = Lab::new();
    let direction = Direction::Ingress;
    // One group or the other, by one policy or the other, or by one that is rewritten: port 80 is always open.
    let open = |extra: u16| {
        vec![
            rule(None, Peer::Anyone, udp(&[(80, 80)])),
            rule(None, Peer::Anyone, udp(&[(extra, extra)])),
        ]
    };
    let mut first = isolated(direction, &POD, open(90));
    first
        .chains
        .insert(chain(2, direction), policy("q", open(91)));
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

/// Every way to change what is about the pod, over and over.
async fn change(kernel: &mut Kernel, mut program: Program, rounds: usize) {
    let direction = Direction::Ingress;
    let held = Held::default();
    let open = |extra: u16| {
        vec![
            rule(None, Peer::Anyone, udp(&[(extra, extra)])),
            rule(None, Peer::Anyone, udp(&[(80, 80)])),
        ]
    };
    let groups = [group(1, direction), group(2, direction)];
    for round in 0..rounds {
        let number = u16::try_from(round).unwrap();
        let rewritten =
            [1, 2].map(|chain_| (chain(chain_, direction), policy("p", open(100 + number))));
        let redirected = POD.map(|pod| {
            let (before, after) = (Some(groups[round % 2]), Some(groups[(round + 1) % 2]));
            ((direction, ip(pod)), Redirection { before, after })
        });
        for changes in [
            Changes {
                chains: rewritten.into(),
                ..Changes::default()
            },
            Changes {
                dispatch: redirected.into(),
                ..Changes::default()
            },
        ] {
            program.apply(&changes);
            kernel.write(&changes, &program, &held).await.unwrap();
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
