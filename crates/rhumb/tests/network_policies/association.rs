//! SCTP over raw sockets: the kernel may have none of its own, and policies are about it all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with};
use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::interval;

use crate::sctp::{Chunk, Packet};
use crate::site::Site;

/// Between two packets of those who wait for an answer.
const AGAIN: Duration = Duration::from_millis(100);
/// Ports of those who begin; they come around after longer than a test takes.
const FIRST_PORT: u16 = 20_000;

/// All of SCTP at one address. It can be in many associations.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    address: IpAddr,
    socket: Arc<UdpSocket>,
    waiting: Arc<Mutex<BTreeMap<u16, UnboundedSender<Packet>>>>,
    next_port: Arc<AtomicU16>,
}

impl Endpoint {
    /// Must be called at the site. It answers on the given ports for as long as the site is there.
    pub(crate) fn open(site: &Site, address: IpAddr, ports: &BTreeSet<u16>) -> Endpoint {
        let endpoint = Endpoint {
            address,
            socket: Arc::new(raw_socket(address)),
            waiting: Arc::default(),
            next_port: Arc::new(AtomicU16::new(FIRST_PORT)),
        };
        let host = Host {
            name: site.name.clone(),
            ports: ports.clone(),
            arrived: site.arrived.clone(),
        };
        tokio::spawn(endpoint.clone().receive(host));
        endpoint
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    async fn receive(self, host: Host) {
        let mut buffer = [0; 2048];
        loop {
            let (bytes, from) = self.next(&mut buffer).await;
            let Some(packet) = Packet::parse(bytes) else {
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
        // Of IPv4 the header comes too.
        let skipped = match from {
            SocketAddr::V4(_) => usize::from(buffer[0] & 0xf) * 4,
            SocketAddr::V6(_) => 0,
        };
        (buffer.get(skipped..length).unwrap_or_default(), from.ip())
    }

    /// What the kernel does not want to send is as good as lost.
    fn send(&self, packet: &Packet, to: IpAddr) {
        let to = SocketAddr::new(to, 0);
        let _ = self.socket.try_send_to(&packet.to_bytes(), to);
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<u16, UnboundedSender<Packet>>> {
        self.waiting.lock().expect("a map")
    }

    /// Goes through the handshake and gives up what was gained. Returns who answered.
    pub(crate) async fn associate(&self, to: SocketAddr, nonce: u32) -> String {
        let (send, mut receive) = unbounded_channel();
        let port = self.next_port.fetch_add(1, Ordering::Relaxed);
        self.waiting().insert(port, send);
        let _guard = Waiting {
            endpoint: self,
            port,
        };
        let packet = |tag, chunk| Packet {
            source: port,
            destination: to.port(),
            tag,
            chunk,
        };
        let init = packet(0, Chunk::Init { tag: nonce });
        let (tag, cookie) = self
            .until(&init, to.ip(), &mut receive, |chunk| match chunk {
                Chunk::InitAck { tag, cookie } => Some((tag, cookie)),
                _ => None,
            })
            .await;
        let who = String::from_utf8_lossy(&cookie).into_owned();
        let echo = packet(tag, Chunk::CookieEcho { cookie });
        self.until(&echo, to.ip(), &mut receive, |chunk| {
            (chunk == Chunk::CookieAck).then_some(())
        })
        .await;
        self.send(&packet(tag, Chunk::Abort), to.ip());
        who
    }

    /// Sends again and again until the right answer comes.
    async fn until<T>(
        &self,
        packet: &Packet,
        to: IpAddr,
        answers: &mut UnboundedReceiver<Packet>,
        pick: impl Fn(Chunk) -> Option<T>,
    ) -> T {
        let mut again = interval(AGAIN);
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

struct Waiting<'a> {
    endpoint: &'a Endpoint,
    port: u16,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.endpoint.waiting().remove(&self.port);
    }
}

/// The side that is asked. It keeps nothing of those who ask: the cookie is its name, and its tag follows from theirs.
struct Host {
    name: String,
    ports: BTreeSet<u16>,
    arrived: Arc<Mutex<BTreeSet<u32>>>,
}

impl Host {
    fn answer(&self, packet: &Packet) -> Option<Packet> {
        if !self.ports.contains(&packet.destination) {
            return None;
        }
        let (tag, chunk) = match packet.chunk {
            Chunk::Init { tag } => {
                self.arrived.lock().expect("a set").insert(tag);
                let cookie = self.name.clone().into_bytes();
                (tag, Chunk::InitAck { tag: !tag, cookie })
            }
            Chunk::CookieEcho { .. } => (!packet.tag, Chunk::CookieAck),
            _ => return None,
        };
        Some(Packet {
            source: packet.destination,
            destination: packet.source,
            tag,
            chunk,
        })
    }
}

/// What is safe to do with it is what can be done with a socket of UDP: waiting, receiving, sending.
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
