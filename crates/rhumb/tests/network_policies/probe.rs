//! Connection probes between network namespaces: clients and responders.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use rhumb_netpol::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::time::{Instant, interval, timeout};

use crate::network_namespace::NetworkNamespace;
use crate::program::poll_until;
use crate::sctp_endpoint::SctpEndpoint;

/// Ports on which every namespace answers. Those of pods have names, see [`crate::objects`].
pub(crate) const PORTS: [(Protocol, u16); 5] = [
    (Protocol::Tcp, 80),
    (Protocol::Tcp, 8080),
    (Protocol::Udp, 53),
    (Protocol::Udp, 80),
    (Protocol::Sctp, 80),
];

/// Far longer than the response to an allowed probe takes.
const SILENCE: Duration = Duration::from_millis(350);
/// Consecutive silent probes that count as denied.
const SILENCES: u32 = 3;
/// Maximum time for an allowed probe, needed only on a very busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time after which a connection attempt is repeated, in case its first packet was lost.
const TRY: Duration = Duration::from_millis(1500);
const AGAIN: Duration = Duration::from_millis(100);

/// A connection to probe.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionProbe {
    pub(crate) from: Arc<NetworkNamespace>,
    pub(crate) source: IpAddr,
    /// The expected responder.
    pub(crate) to: Arc<NetworkNamespace>,
    /// The destination address: one of the responder, or a service address.
    pub(crate) target: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    Answered,
    /// The destination has received it, although no response arrived.
    Arrived,
    Nothing,
}

impl ConnectionProbe {
    /// A probe between the first addresses of a family.
    pub(crate) fn new(
        from: &Arc<NetworkNamespace>,
        to: &Arc<NetworkNamespace>,
        what: (Protocol, u16),
        is_v4: bool,
    ) -> ConnectionProbe {
        ConnectionProbe {
            from: from.clone(),
            source: from.address(is_v4),
            to: to.clone(),
            target: to.address(is_v4),
            protocol: what.0,
            port: what.1,
        }
    }

    /// Whether the result is as expected; an allowed probe gets more time, and a denied one must not even arrive.
    pub(crate) async fn check(&self, is_allowed: bool) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let sight = self.within(if is_allowed { TRY } else { SILENCE }).await;
            match sight {
                ProbeOutcome::Answered if is_allowed => return Ok(()),
                ProbeOutcome::Nothing if !is_allowed => return Ok(()),
                _ if is_allowed && begun.elapsed() < PATIENCE => {}
                _ => return Err(format!("{self}: {sight:?}")),
            }
        }
    }

    /// Repeats the probe until it has the expected result.
    pub(crate) async fn becomes(&self, is_allowed: bool) {
        let wanted = if is_allowed { "opens" } else { "closes" };
        let mut silences = 0;
        poll_until(&format!("that {self} {wanted}"), async || {
            match self.within(SILENCE).await {
                ProbeOutcome::Answered if is_allowed => return Some(()),
                ProbeOutcome::Nothing => silences += 1,
                _ => silences = 0,
            }
            // A single silent probe could be due to a busy machine.
            (!is_allowed && silences == SILENCES).then_some(())
        })
        .await;
    }

    /// One datagram without retransmission: tests the very first packet.
    pub(crate) async fn first_packet(&self) {
        assert_eq!(self.protocol, Protocol::Udp, "only datagrams are sent once");
        let (source, to) = (self.source, SocketAddr::new(self.target, self.port));
        let nonce = nonce().to_be_bytes();
        let answer = self.from.spawn(async move {
            let socket = UdpSocket::bind((source, 0)).await?;
            socket.send_to(&nonce, to).await?;
            let answer = timeout(PATIENCE, socket.recv(&mut [0; 256])).await;
            answer.map_err(io::Error::from)?
        });
        let answer = answer.await.expect("a task");
        answer.unwrap_or_else(|error| panic!("{self}: {error}"));
    }

    async fn within(&self, timeout_after: Duration) -> ProbeOutcome {
        let nonce = nonce();
        let attempt = self.clone().attempt(nonce);
        let answer = self.from.spawn(timeout(timeout_after, attempt)).await;
        match answer.expect("a probe does not fail") {
            Ok(who) => {
                assert_eq!(who, self.to.name, "{self}: somebody else answered");
                ProbeOutcome::Answered
            }
            Err(_) if self.to.has_seen(nonce) => ProbeOutcome::Arrived,
            Err(_) => ProbeOutcome::Nothing,
        }
    }

    /// Returns the name of the responder, or never returns.
    pub(crate) async fn attempt(self, nonce: u32) -> String {
        let to = SocketAddr::new(self.target, self.port);
        match self.protocol {
            Protocol::Tcp => loop {
                if let Ok(mut stream) = connect(self.source, to).await {
                    self.to.note(nonce);
                    if let Ok(who) = read_name(&mut stream).await {
                        return who;
                    }
                }
                tokio::time::sleep(AGAIN).await;
            },
            Protocol::Udp => probe_udp(self.source, to, nonce).await,
            Protocol::Sctp => {
                let endpoints = self.from.endpoints.get().expect("a site that serves");
                let own = endpoints.iter().find(|one| one.address() == self.source);
                own.expect("an own address").associate(to, nonce).await
            }
        }
    }
}

impl fmt::Display for ConnectionProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (&self.from.name, &self.to.name);
        let (source, target, port) = (self.source, self.target, self.port);
        let protocol = self.protocol;
        write!(
            f,
            "{from} ({source}) to {to} ({target}) {port}/{protocol:?}"
        )
    }
}

/// Unique within the process.
pub(crate) fn nonce() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) async fn connect(source: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = match source {
        IpAddr::V4(_) => TcpSocket::new_v4(),
        IpAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.bind(SocketAddr::new(source, 0))?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The name of the responder, which is the first line it sends.
pub(crate) async fn read_name(stream: &mut TcpStream) -> io::Result<String> {
    let mut name = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return Ok(String::from_utf8_lossy(&name).into_owned()),
            byte => name.push(byte),
        }
    }
}

async fn probe_udp(source: IpAddr, to: SocketAddr, nonce: u32) -> String {
    let socket = UdpSocket::bind((source, 0)).await.expect("a socket");
    let mut again = interval(AGAIN);
    let mut buffer = [0; 256];
    loop {
        tokio::select! {
            // A packet that the kernel refuses to send counts as lost.
            _ = again.tick() => drop(socket.send_to(&nonce.to_be_bytes(), to).await),
            Ok((length, from)) = socket.recv_from(&mut buffer) => {
                assert_eq!(from, to, "somebody else answered");
                return String::from_utf8_lossy(&buffer[..length]).into_owned();
            }
        }
    }
}

/// Answers on all ports and addresses of a namespace, for its lifetime.
pub(crate) async fn serve(netns: &Arc<NetworkNamespace>) {
    let serving = netns.clone();
    let task = async move {
        for &address in &serving.addresses {
            for (protocol, port) in PORTS {
                let at = SocketAddr::new(address, port);
                match protocol {
                    Protocol::Tcp => serve_tcp(at, &serving.name).await,
                    Protocol::Udp => serve_udp(at, &serving).await,
                    Protocol::Sctp => {}
                }
            }
        }
        let of_sctp = |(protocol, port)| (protocol == Protocol::Sctp).then_some(port);
        let ports: BTreeSet<u16> = PORTS.into_iter().filter_map(of_sctp).collect();
        let open = |&address: &IpAddr| SctpEndpoint::open(&serving, address, &ports);
        let endpoints = serving.addresses.iter().map(open).collect();
        serving.endpoints.set(endpoints).expect("it serves once");
    };
    netns.spawn(task).await.expect("it serves");
}

/// Sends its name, then echoes.
async fn serve_tcp(at: SocketAddr, name: &str) {
    let listener = TcpListener::bind(at).await;
    let listener = listener.unwrap_or_else(|error| panic!("{at}: {error}"));
    let greeting = format!("{name}\n");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let greeting = greeting.clone();
            tokio::spawn(async move {
                stream.set_nodelay(true)?;
                stream.write_all(greeting.as_bytes()).await?;
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
}

/// Answers with its name. Messages of the nonce's length are recorded as nonces.
async fn serve_udp(at: SocketAddr, netns: &Arc<NetworkNamespace>) {
    let socket = UdpSocket::bind(at).await;
    let socket = socket.unwrap_or_else(|error| panic!("{at}: {error}"));
    let (name, arrived) = (netns.name.clone(), netns.arrived.clone());
    tokio::spawn(async move {
        let mut buffer = [0; 8192];
        loop {
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                continue;
            };
            if let Ok(bytes) = buffer[..length].try_into() {
                let nonce = u32::from_be_bytes(bytes);
                arrived.lock().expect("a set").insert(nonce);
            }
            let _ = socket.send_to(name.as_bytes(), from).await;
        }
    });
}

/// Probes of all ports of all protocols, with both families.
pub(crate) fn between(
    from: &Arc<NetworkNamespace>,
    to: &Arc<NetworkNamespace>,
) -> Vec<ConnectionProbe> {
    let families = |what| [true, false].map(|is_v4| ConnectionProbe::new(from, to, what, is_v4));
    PORTS.into_iter().flat_map(families).collect()
}

pub(crate) async fn all_are_open(what: &str, probes: impl IntoIterator<Item = ConnectionProbe>) {
    let probes = probes.into_iter().map(|probe| (probe, true));
    check_all(what, probes.collect()).await;
}

pub(crate) async fn all_are_closed(what: &str, probes: impl IntoIterator<Item = ConnectionProbe>) {
    let probes = probes.into_iter().map(|probe| (probe, false));
    check_all(what, probes.collect()).await;
}

/// Runs all probes concurrently and lists the unexpected results.
pub(crate) async fn check_all(what: &str, probes: Vec<(ConnectionProbe, bool)>) {
    let each = probes
        .iter()
        .map(|(probe, is_allowed)| probe.check(*is_allowed));
    let wrong: Vec<String> = join_all(each)
        .await
        .into_iter()
        .filter_map(Result::err)
        .collect();
    let (count, of) = (wrong.len(), probes.len());
    assert!(
        wrong.is_empty(),
        "{what}: {count} of {of} are wrong:\n{}",
        wrong.join("\n")
    );
}
