//! A test network: a peer, a router with the rules, and a pod behind it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use rhumb_agent::nft::{KernelTable, PodCidrRanges};
use rhumb_netpol::ruleset::NodeRuleset;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::network_namespace::{TestNetworkNamespace, link};
use crate::test_rulesets::ip;

/// The addresses of the isolated pod, other addresses in its namespace that no rule mentions, and the peer's addresses.
pub(crate) const POD: [&str; 2] = ["10.9.2.2", "fd09:2::2"];
pub(crate) const OPEN: [&str; 2] = ["10.9.2.3", "fd09:2::3"];
pub(crate) const PEER: [&str; 2] = ["10.9.1.2", "fd09:1::2"];
/// Receive timeout, long enough for a busy machine.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const FENCE_PORT: u16 = 9;

/// A peer, a router with the rules, and a pod.
pub(crate) struct RoutedPodLab {
    pub(crate) peer: TestNetworkNamespace,
    pub(crate) router: TestNetworkNamespace,
    pub(crate) pod: TestNetworkNamespace,
    pub(crate) kernel: KernelTable,
}

impl RoutedPodLab {
    pub(crate) fn new() -> RoutedPodLab {
        let [peer, router, pod] = [(); 3].map(|()| TestNetworkNamespace::new());
        router.enable_forwarding();
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
        let lab = RoutedPodLab {
            peer,
            router,
            pod,
            kernel,
        };
        lab.resolve_neighbours();
        lab
    }

    /// Fills the neighbour caches, so that no later packet is delayed by address resolution.
    fn resolve_neighbours(&self) {
        for address in POD.into_iter().chain(OPEN) {
            let family = usize::from(address.contains(':'));
            let receiver = self
                .pod
                .run_inside(|| bound_udp_socket(address, FENCE_PORT));
            let sender = self.peer.run_inside(|| bound_udp_socket(PEER[family], 0));
            sender.send_to(b"x", (ip(address), FENCE_PORT)).unwrap();
            let (_, from) = receiver
                .recv_from(&mut [0])
                .expect("there are no rules yet");
            receiver.send_to(b"x", from).unwrap();
            sender.recv(&mut [0]).expect("there are no rules yet");
        }
    }

    pub(crate) async fn load(&mut self, program: &NodeRuleset) {
        self.kernel
            .replace(program, &PodCidrRanges::default())
            .await
            .unwrap();
    }

    /// The ports of the pod that a datagram reaches.
    pub(crate) fn reached_ports(&self, family: usize, ports: &[u16]) -> Vec<u16> {
        let receivers = self.pod.run_inside(|| {
            let bind = |port: &u16| bound_udp_socket(POD[family], *port);
            ports.iter().map(bind).collect::<Vec<_>>()
        });
        let fence = self
            .pod
            .run_inside(|| bound_udp_socket(OPEN[family], FENCE_PORT));
        self.peer.run_inside(|| {
            stay_on_one_processor();
            let sender = bound_udp_socket(PEER[family], 0);
            for port in ports {
                sender
                    .send_to(b"x", SocketAddr::new(ip(POD[family]), *port))
                    .unwrap();
            }
            sender
                .send_to(b"x", SocketAddr::new(ip(OPEN[family]), FENCE_PORT))
                .unwrap();
        });
        // Packets stay in order: once the last has arrived, all others have arrived or were dropped.
        fence.recv(&mut [0]).expect("the fence packet arrives");
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

pub(crate) fn bound_udp_socket(address: &str, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((ip(address), port)).unwrap();
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
    socket
}

/// Packets sent by one CPU over veth links stay in order.
fn stay_on_one_processor() {
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
}

/// Both ends of an established TCP connection from the peer to the pod.
pub(crate) struct EstablishedTcpConnection {
    client: TcpStream,
    server: TcpStream,
}

impl EstablishedTcpConnection {
    pub(crate) fn new(lab: &RoutedPodLab, family: usize) -> EstablishedTcpConnection {
        let listener = lab
            .pod
            .run_inside(|| TcpListener::bind((ip(POD[family]), 80)).unwrap());
        let to = listener.local_addr().unwrap();
        let client = lab
            .peer
            .run_inside(|| TcpStream::connect_timeout(&to, RECEIVE_TIMEOUT).unwrap());
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
            end.set_nodelay(true).unwrap();
        }
        EstablishedTcpConnection { client, server }
    }

    pub(crate) fn assert_passes_data(&mut self) {
        let (client, server) = (&mut self.client, &mut self.server);
        let mut byte = [0];
        client.write_all(b"a").unwrap();
        server
            .read_exact(&mut byte)
            .expect("data of the client arrives");
        server.write_all(b"b").unwrap();
        client
            .read_exact(&mut byte)
            .expect("data of the server arrives");
    }

    /// Checks that data of neither end arrives, although a packet that was sent later has arrived.
    pub(crate) fn assert_blocked(&mut self, lab: &RoutedPodLab, family: usize) {
        lab.peer.run_inside(|| {
            stay_on_one_processor();
            self.client.write_all(b"a").unwrap();
            self.server.write_all(b"b").unwrap();
        });
        lab.reached_ports(family, &[]);
        for mut end in [&self.client, &self.server] {
            end.set_nonblocking(true).unwrap();
            assert!(end.read(&mut [0]).is_err());
            end.set_nonblocking(false).unwrap();
        }
    }

    /// Checks that the blocked data arrives by retransmission.
    pub(crate) fn assert_resumed(&mut self) {
        let mut byte = [0];
        self.server
            .read_exact(&mut byte)
            .expect("retransmitted data of the client arrives");
        self.client
            .read_exact(&mut byte)
            .expect("retransmitted data of the server arrives");
    }
}
