//! A pod behind a router that has the rules, and somebody who sends to it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use rhumb_agent::nft::{Held, Kernel};
use rhumb_netpol::program::Program;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::namespace::{Namespace, link};
use crate::programs::ip;

/// The pod that rules are about, and addresses of the same machine that no rule knows.
pub(crate) const POD: [&str; 2] = ["10.9.2.2", "fd09:2::2"];
pub(crate) const OPEN: [&str; 2] = ["10.9.2.3", "fd09:2::3"];
pub(crate) const PEER: [&str; 2] = ["10.9.1.2", "fd09:1::2"];
/// Long enough for a machine that is busy; what comes is not waited for any longer than it takes.
const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const FENCE_PORT: u16 = 9;

/// A peer, a router with the rules, and a pod.
pub(crate) struct Lab {
    pub(crate) peer: Namespace,
    pub(crate) router: Namespace,
    pub(crate) pod: Namespace,
    pub(crate) kernel: Kernel,
}

impl Lab {
    pub(crate) fn new() -> Lab {
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

    pub(crate) async fn load(&mut self, program: &Program) {
        self.kernel
            .replace(program, &Held::default())
            .await
            .unwrap();
    }

    /// Which of these ports of the pod a datagram reaches.
    pub(crate) fn reached(&self, family: usize, ports: &[u16]) -> Vec<u16> {
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

pub(crate) fn bound(address: &str, port: u16) -> UdpSocket {
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

/// Both ends of a connection.
pub(crate) struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    pub(crate) fn new(lab: &Lab, family: usize) -> Connection {
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

    pub(crate) fn goes_on(&mut self) {
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
    pub(crate) fn is_cut(&mut self, lab: &Lab, family: usize) {
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
    pub(crate) fn is_back(&mut self) {
        let mut byte = [0];
        self.server
            .read_exact(&mut byte)
            .expect("what the client said arrives");
        self.client
            .read_exact(&mut byte)
            .expect("what the server said arrives");
    }
}
