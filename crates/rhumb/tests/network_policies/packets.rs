//! Packets that are not as simple: in pieces, of ICMP, about others.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

use crate::cluster::{Cluster, PATIENCE, with_each_wiring};
use crate::site::Site;

/// Who is let through is answered in far less.
const SILENCE: Duration = Duration::from_millis(350);
const TRY: Duration = Duration::from_millis(100);

/// What is sent again and again, from one address to another, until there is an answer or an error.
#[derive(Debug, Clone)]
struct Message {
    source: SocketAddr,
    target: SocketAddr,
    is_icmp: bool,
    bytes: Vec<u8>,
}

impl Message {
    fn new(from: &Site, to: &Site, is_v4: bool, port: u16, bytes: Vec<u8>) -> Message {
        Message {
            source: SocketAddr::new(from.address(is_v4), 0),
            target: SocketAddr::new(to.address(is_v4), port),
            is_icmp: false,
            bytes,
        }
    }

    /// Asks for an echo. The kernel fills in who asks and a checksum.
    fn ping(from: &Site, to: &Site, is_v4: bool) -> Message {
        let kind = if is_v4 { 8 } else { 128 };
        Message {
            is_icmp: true,
            ..Message::new(from, to, is_v4, 0, vec![kind, 0, 0, 0, 0, 0, 0, 1])
        }
    }

    async fn send(self, patience: Duration) -> io::Result<()> {
        let socket = match self.is_icmp {
            true => ping_socket(self.source)?,
            false => UdpSocket::bind(self.source).await?,
        };
        socket.connect(self.target).await?;
        let begun = Instant::now();
        loop {
            socket.send(&self.bytes).await?;
            match timeout(TRY, socket.recv(&mut [0; 256])).await {
                Ok(received) => return received.map(drop),
                Err(silence) if begun.elapsed() >= patience => return Err(silence.into()),
                Err(_) => {}
            }
        }
    }
}

fn ping_socket(source: SocketAddr) -> io::Result<UdpSocket> {
    let (family, protocol) = match source.ip() {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(protocol))?;
    bind(&socket, &source)?;
    UdpSocket::from_std(socket.into())
}

/// What comes back: an answer, an error, or nothing.
async fn outcome(from: &Arc<Site>, message: Message, patience: Duration) -> Option<io::ErrorKind> {
    let sent = from.spawn(message.send(patience)).await;
    sent.expect("a task").err().map(|error| error.kind())
}

type Expected<'a> = (&'a str, Message, Option<io::ErrorKind>);

async fn check(cluster: &Cluster, what: &str, messages: &[Expected<'_>]) {
    let each = messages.iter().map(async |(from, message, expected)| {
        let patience = if *expected == SILENT {
            SILENCE
        } else {
            PATIENCE
        };
        let came = outcome(&cluster.pod(from), message.clone(), patience).await;
        let (source, target) = (message.source, message.target);
        assert_eq!(came, *expected, "{what}: {source} to {target}");
    });
    join_all(each).await;
}

const ANSWER: Option<io::ErrorKind> = None;
const SILENT: Option<io::ErrorKind> = Some(io::ErrorKind::TimedOut);
const REFUSED: Option<io::ErrorKind> = Some(io::ErrorKind::ConnectionRefused);

/// More than two packets take.
fn large() -> Vec<u8> {
    vec![7; 4000]
}

async fn uncommon(cluster: &mut Cluster) {
    cluster.create_pods().await;
    for pod in cluster.pods.values() {
        pod.set(&[("ipv4/ping_group_range", "0 2147483647")]);
    }
    cluster.start_agents().await;
    let [a, b, c, far] = ["x/a", "x/b", "x/c", "y/a"].map(|name| cluster.pod(name));
    cluster
        .enforce(
            "x/some",
            "{podSelector: {matchLabels: {pod: a}}, policyTypes: [Ingress, Egress], ingress: [
                {from: [{podSelector: {matchLabels: {pod: b}}}]},
                {from: [{podSelector: {matchLabels: {pod: c}}}], ports: [{port: 53, protocol: UDP}]}]}",
        )
        .await;
    for is_v4 in [true, false] {
        let message = |from, port, bytes| Message::new(from, &a, is_v4, port, bytes);
        let pieces = [
            ("x/b", message(&b, 80, large()), ANSWER),
            ("x/c", message(&c, 53, large()), ANSWER),
            ("x/c", message(&c, 80, large()), SILENT),
            ("y/a", message(&far, 53, large()), SILENT),
        ];
        check(cluster, "in pieces", &pieces).await;
        let ping = |from| Message::ping(from, &a, is_v4);
        // Only a rule without ports is about what has none.
        let pings = [
            ("x/b", ping(&b), ANSWER),
            ("x/c", ping(&c), SILENT),
            ("y/a", ping(&far), SILENT),
            ("x/a", Message::ping(&a, &b, is_v4), SILENT),
        ];
        check(cluster, "echoes", &pings).await;
        // Nobody listens there. The one who allows it must be able to say so, although it may not send anything else.
        let errors = [
            ("x/b", message(&b, 99, vec![1]), REFUSED),
            ("x/c", message(&c, 99, vec![1]), SILENT),
        ];
        check(cluster, "errors", &errors).await;
    }
}

#[test]
fn pieces_echoes_and_errors_obey_policies() {
    with_each_wiring(uncommon);
}
