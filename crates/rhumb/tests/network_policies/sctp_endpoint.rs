//! SCTP over raw sockets, because the kernel may lack SCTP although policies cover it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with};
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::interval;

use crate::network_namespace::NetworkNamespace;
use crate::sctp::{SctpChunk, SctpPacket};

/// Interval between retransmissions.
const RETRANSMIT_INTERVAL: Duration = Duration::from_millis(100);
/// Client ports; they are reused only after longer than a test takes.
const FIRST_PORT: u16 = 20_000;

/// The SCTP endpoint of one address, with any number of associations.
#[derive(Debug, Clone)]
pub(crate) struct SctpEndpoint {
    address: IpAddr,
    socket: Arc<UdpSocket>,
    waiting: Arc<Mutex<BTreeMap<u16, UnboundedSender<SctpPacket>>>>,
    next_port: Arc<AtomicU16>,
}

impl SctpEndpoint {
    /// Must be called inside the network namespace. Answers on the given ports for the lifetime of the namespace.
    pub(crate) fn open(
        netns: &NetworkNamespace,
        address: IpAddr,
        ports: &BTreeSet<u16>,
    ) -> SctpEndpoint {
        let endpoint = SctpEndpoint {
            address,
            socket: Arc::new(raw_socket(address)),
            waiting: Arc::default(),
            next_port: Arc::new(AtomicU16::new(FIRST_PORT)),
        };
        let host = SctpResponder {
            name: netns.name.clone(),
            ports: ports.clone(),
            arrived: netns.arrived.clone(),
        };
        tokio::spawn(endpoint.clone().receive(host));
        endpoint
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    async fn receive(self, host: SctpResponder) {
        let mut buffer = [0; 2048];
        loop {
            let (bytes, from) = self.next(&mut buffer).await;
            let Some(packet) = SctpPacket::parse(bytes) else {
                continue;
            };
            if let Some(answer) = host.answer(&packet) {
                self.send(&answer, from);
            } else if let Some(waiting) = self.waiting().get(&packet.destination) {
                let _ = waiting.send(packet);
            }
        }
    }

    async fn next<'a>(&self, buffer: &'a mut [u8]) -> (&'a [u8], IpAddr) {
        let (length, from) = loop {
            if let Ok(received) = self.socket.recv_from(buffer).await {
                break received;
            }
        };
        // IPv4 raw sockets include the IP header.
        let skipped = match from {
            SocketAddr::V4(_) => usize::from(buffer[0] & 0xf) * 4,
            SocketAddr::V6(_) => 0,
        };
        (buffer.get(skipped..length).unwrap_or_default(), from.ip())
    }

    /// A packet that the kernel refuses to send counts as lost.
    fn send(&self, packet: &SctpPacket, to: IpAddr) {
        let to = SocketAddr::new(to, 0);
        let _ = self.socket.try_send_to(&packet.to_bytes(), to);
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<u16, UnboundedSender<SctpPacket>>> {
        self.waiting.lock().expect("a map")
    }

    /// Performs the handshake and drops the association. Returns the name of the responder.
    pub(crate) async fn associate(&self, to: SocketAddr, nonce: u32) -> String {
        let (send, mut receive) = unbounded_channel();
        let port = self.next_port.fetch_add(1, Ordering::Relaxed);
        self.waiting().insert(port, send);
        let _guard = AnswerPortGuard {
            endpoint: self,
            port,
        };
        let packet = |tag, chunk| SctpPacket {
            source: port,
            destination: to.port(),
            tag,
            chunk,
        };
        let init = packet(0, SctpChunk::Init { tag: nonce });
        let (tag, cookie) = self
            .send_until(&init, to.ip(), &mut receive, |chunk| match chunk {
                SctpChunk::InitAck { tag, cookie } => Some((tag, cookie)),
                _ => None,
            })
            .await;
        let who = String::from_utf8_lossy(&cookie).into_owned();
        let echo = packet(tag, SctpChunk::CookieEcho { cookie });
        self.send_until(&echo, to.ip(), &mut receive, |chunk| {
            (chunk == SctpChunk::CookieAck).then_some(())
        })
        .await;
        self.send(&packet(tag, SctpChunk::Abort), to.ip());
        who
    }

    /// Retransmits until the expected response arrives.
    async fn send_until<T>(
        &self,
        packet: &SctpPacket,
        to: IpAddr,
        answers: &mut UnboundedReceiver<SctpPacket>,
        pick: impl Fn(SctpChunk) -> Option<T>,
    ) -> T {
        let mut again = interval(RETRANSMIT_INTERVAL);
        loop {
            tokio::select! {
                _ = again.tick() => self.send(packet, to),
                Some(answer) = answers.recv() => {
                    if let Some(picked) = pick(answer.chunk) {
                        return picked;
                    }
                }
            }
        }
    }
}

struct AnswerPortGuard<'a> {
    endpoint: &'a SctpEndpoint,
    port: u16,
}

impl Drop for AnswerPortGuard<'_> {
    fn drop(&mut self) {
        self.endpoint.waiting().remove(&self.port);
    }
}

/// The stateless server side: the cookie is its name, and its tag is derived from the client's.
struct SctpResponder {
    name: String,
    ports: BTreeSet<u16>,
    arrived: Arc<Mutex<BTreeSet<u32>>>,
}

impl SctpResponder {
    fn answer(&self, packet: &SctpPacket) -> Option<SctpPacket> {
        if !self.ports.contains(&packet.destination) {
            return None;
        }
        let (tag, chunk) = match packet.chunk {
            SctpChunk::Init { tag } => {
                self.arrived.lock().expect("a set").insert(tag);
                let cookie = self.name.clone().into_bytes();
                (tag, SctpChunk::InitAck { tag: !tag, cookie })
            }
            SctpChunk::CookieEcho { .. } => (!packet.tag, SctpChunk::CookieAck),
            _ => return None,
        };
        Some(SctpPacket {
            source: packet.destination,
            destination: packet.source,
            tag,
            chunk,
        })
    }
}

/// Like a UDP socket: readiness, receive, send.
fn raw_socket(address: IpAddr) -> UdpSocket {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::RAW, flags, Some(ipproto::SCTP));
    let socket = socket.expect("a raw socket");
    let bound = bind(&socket, &SocketAddr::new(address, 0));
    bound.unwrap_or_else(|error| panic!("{address}: {error}"));
    UdpSocket::from_std(socket.into()).expect("a socket to wait for")
}
