//! Fragments, ICMP echoes and ICMP errors.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

use crate::cluster::{NetpolTestCluster, with_each_link_type};
use crate::network_namespace::NetworkNamespace;
use crate::program::PATIENCE;

/// Far longer than the response to an allowed packet takes.
const SILENCE: Duration = Duration::from_millis(350);
const TRY: Duration = Duration::from_millis(100);

/// A packet that is sent repeatedly until there is a response or an error.
#[derive(Debug, Clone)]
struct DatagramProbe {
    source: SocketAddr,
    target: SocketAddr,
    is_icmp: bool,
    bytes: Vec<u8>,
}

impl DatagramProbe {
    fn new(
        from: &NetworkNamespace,
        to: &NetworkNamespace,
        is_v4: bool,
        port: u16,
        bytes: Vec<u8>,
    ) -> DatagramProbe {
        DatagramProbe {
            source: SocketAddr::new(from.address(is_v4), 0),
            target: SocketAddr::new(to.address(is_v4), port),
            is_icmp: false,
            bytes,
        }
    }

    /// An ICMP echo request. The kernel fills in identifier and checksum.
    fn ping(from: &NetworkNamespace, to: &NetworkNamespace, is_v4: bool) -> DatagramProbe {
        let kind = if is_v4 { 8 } else { 128 };
        DatagramProbe {
            is_icmp: true,
            ..DatagramProbe::new(from, to, is_v4, 0, vec![kind, 0, 0, 0, 0, 0, 0, 1])
        }
    }

    async fn send(self, timeout_after: Duration) -> io::Result<()> {
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
                Err(silence) if begun.elapsed() >= timeout_after => return Err(silence.into()),
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

/// The result: a response, an error, or nothing.
async fn outcome(
    from: &Arc<NetworkNamespace>,
    message: DatagramProbe,
    timeout_after: Duration,
) -> Option<io::ErrorKind> {
    let sent = from.spawn(message.send(timeout_after)).await;
    sent.expect("a task").err().map(|error| error.kind())
}

type ExpectedDatagram<'a> = (&'a str, DatagramProbe, Option<io::ErrorKind>);

async fn check(cluster: &NetpolTestCluster, what: &str, messages: &[ExpectedDatagram<'_>]) {
    let each = messages.iter().map(async |(from, message, expected)| {
        let timeout_after = if *expected == SILENT {
            SILENCE
        } else {
            PATIENCE
        };
        let came = outcome(&cluster.pod(from), message.clone(), timeout_after).await;
        let (source, target) = (message.source, message.target);
        assert_eq!(came, *expected, "{what}: {source} to {target}");
    });
    join_all(each).await;
}

const ANSWER: Option<io::ErrorKind> = None;
const SILENT: Option<io::ErrorKind> = Some(io::ErrorKind::TimedOut);
const REFUSED: Option<io::ErrorKind> = Some(io::ErrorKind::ConnectionRefused);

/// Larger than two packets.
fn large() -> Vec<u8> {
    vec![7; 4000]
}

async fn uncommon(cluster: &mut NetpolTestCluster) {
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
        let message = |from, port, bytes| DatagramProbe::new(from, &a, is_v4, port, bytes);
        let pieces = [
            ("x/b", message(&b, 80, large()), ANSWER),
            ("x/c", message(&c, 53, large()), ANSWER),
            ("x/c", message(&c, 80, large()), SILENT),
            ("y/a", message(&far, 53, large()), SILENT),
        ];
        check(cluster, "in pieces", &pieces).await;
        let ping = |from| DatagramProbe::ping(from, &a, is_v4);
        // Only a rule without ports matches a protocol without ports.
        let pings = [
            ("x/b", ping(&b), ANSWER),
            ("x/c", ping(&c), SILENT),
            ("y/a", ping(&far), SILENT),
            ("x/a", DatagramProbe::ping(&a, &b, is_v4), SILENT),
        ];
        check(cluster, "echoes", &pings).await;
        // Nothing listens there. The allowed destination must be able to send the ICMP error, although its egress is
        // denied.
        let errors = [
            ("x/b", message(&b, 99, vec![1]), REFUSED),
            ("x/c", message(&c, 99, vec![1]), SILENT),
        ];
        check(cluster, "errors", &errors).await;
    }
}

#[test]
fn fragments_icmp_echoes_and_errors_obey_policies() {
    with_each_link_type(uncommon);
}
