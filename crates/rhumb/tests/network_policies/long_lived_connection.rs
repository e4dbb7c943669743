//! Connections with continuous traffic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::time::{interval, sleep, timeout};

use crate::network_namespace::NetworkNamespace;
use crate::probe::{connect, read_name};
use crate::program::{PATIENCE, poll_until};

const PAUSE: Duration = Duration::from_millis(5);
/// Far longer than allowed traffic takes.
const SILENCE: Duration = Duration::from_millis(500);

/// Time after which an unanswered datagram counts as lost, even on a busy machine.
const LOST: Duration = Duration::from_secs(5);
/// Packets in flight during a change may be dropped. If rules were missing for longer, every connection would lose
/// one.
const LOST_MAX: u32 = 2;
const AGAIN: Duration = Duration::from_millis(100);

/// Sends numbers continuously and counts the received ones.
#[derive(Debug, Clone)]
pub(crate) struct LongLivedConnection {
    what: String,
    sent: Arc<AtomicU32>,
    received: Arc<AtomicU32>,
    lost: Arc<AtomicU32>,
}

impl LongLivedConnection {
    fn new(what: &str, from: &NetworkNamespace, to: &NetworkNamespace) -> LongLivedConnection {
        LongLivedConnection {
            what: format!("{what} from {} to {}", from.name, to.name),
            sent: Arc::default(),
            received: Arc::default(),
            lost: Arc::default(),
        }
    }

    /// A TCP connection: each number is echoed before the next is sent.
    pub(crate) async fn tcp(
        from: &Arc<NetworkNamespace>,
        to: &Arc<NetworkNamespace>,
        is_v4: bool,
    ) -> LongLivedConnection {
        let connection = LongLivedConnection::new("TCP", from, to);
        let (source, target) = (from.address(is_v4), to.address(is_v4));
        let (begun, begins) = oneshot::channel();
        let own = connection.clone();
        from.spawn(async move {
            let mut stream = connect(source, SocketAddr::new(target, 80)).await?;
            read_name(&mut stream).await?;
            let _ = begun.send(());
            for number in 1.. {
                own.sent.store(number, Ordering::SeqCst);
                stream.write_u32(number).await?;
                let echoed = stream.read_u32().await?;
                own.received.store(echoed, Ordering::SeqCst);
                sleep(PAUSE).await;
            }
            Ok::<(), std::io::Error>(())
        });
        connection.wait_until_connected(begins).await
    }

    /// The same with datagrams, counting lost ones.
    pub(crate) async fn udp(
        from: &Arc<NetworkNamespace>,
        to: &Arc<NetworkNamespace>,
        is_v4: bool,
    ) -> LongLivedConnection {
        let connection = LongLivedConnection::new("UDP", from, to);
        let (source, target) = (from.address(is_v4), to.address(is_v4));
        let (begun, begins) = oneshot::channel();
        let own = connection.clone();
        from.spawn(async move {
            let socket = UdpSocket::bind((source, 0)).await?;
            socket.connect((target, 80)).await?;
            let _ = begun.send(());
            for number in 1.. {
                own.sent.store(number, Ordering::SeqCst);
                socket.send(b"anything").await?;
                while receive(&socket, LOST).await.is_none() {
                    own.lost.fetch_add(1, Ordering::SeqCst);
                    socket.send(b"anything").await?;
                }
                own.received.store(number, Ordering::SeqCst);
                sleep(PAUSE).await;
            }
            Ok::<(), std::io::Error>(())
        });
        connection.wait_until_connected(begins).await
    }

    /// Datagrams from the peer, after a single request.
    pub(crate) async fn stream(
        from: &Arc<NetworkNamespace>,
        to: &Arc<NetworkNamespace>,
        is_v4: bool,
    ) -> LongLivedConnection {
        let connection = LongLivedConnection::new("a stream to", from, to);
        let (source, target) = (from.address(is_v4), to.address(is_v4));
        let server = to.spawn(UdpSocket::bind((target, 0))).await;
        let server = server.expect("a task").expect("a socket");
        let at = server.local_addr().expect("an address");
        let own = connection.clone();
        to.spawn(async move {
            let (_, asking) = server.recv_from(&mut [0; 16]).await?;
            let mut tick = interval(PAUSE);
            for number in 1_u32.. {
                tick.tick().await;
                own.sent.store(number, Ordering::SeqCst);
                let _ = server.send_to(&number.to_be_bytes(), asking).await;
            }
            Ok::<(), std::io::Error>(())
        });
        let (begun, begins) = oneshot::channel();
        let own = connection.clone();
        from.spawn(async move {
            let socket = UdpSocket::bind((source, 0)).await?;
            socket.connect(at).await?;
            socket.send(b"go").await?;
            while receive(&socket, AGAIN).await.is_none() {
                socket.send(b"go").await?;
            }
            let _ = begun.send(());
            let mut number = [0; 4];
            while socket.recv(&mut number).await.is_ok() {
                own.received
                    .store(u32::from_be_bytes(number), Ordering::SeqCst);
            }
            Ok::<(), std::io::Error>(())
        });
        connection.wait_until_connected(begins).await
    }

    async fn wait_until_connected(self, begins: oneshot::Receiver<()>) -> LongLivedConnection {
        let begun = timeout(PATIENCE, begins).await;
        assert!(matches!(begun, Ok(Ok(()))), "{}: no connection", self.what);
        self.wait_for_traffic().await;
        self
    }

    /// Waits until a number arrives that was sent after this call.
    pub(crate) async fn wait_for_traffic(&self) {
        let sent = self.sent.load(Ordering::SeqCst);
        poll_until(&format!("that {} goes on", self.what), async || {
            (self.received.load(Ordering::SeqCst) > sent).then_some(())
        })
        .await;
    }

    /// Fails if a number arrives that was sent after this call.
    pub(crate) async fn is_cut(&self) {
        let sent = self.sent.load(Ordering::SeqCst);
        sleep(SILENCE).await;
        let received = self.received.load(Ordering::SeqCst);
        assert!(received <= sent, "{} is not cut", self.what);
    }
}

/// The length of the next datagram, if it arrives in time.
async fn receive(socket: &UdpSocket, timeout_after: Duration) -> Option<usize> {
    let mut buffer = [0; 256];
    timeout(timeout_after, socket.recv(&mut buffer))
        .await
        .ok()?
        .ok()
}

/// Fails also if too many packets were lost.
pub(crate) async fn all_go_on(open_connections: &[LongLivedConnection]) {
    join_all(
        open_connections
            .iter()
            .map(LongLivedConnection::wait_for_traffic),
    )
    .await;
    let lost = |connection: &LongLivedConnection| connection.lost.load(Ordering::SeqCst);
    let lost: u32 = open_connections.iter().map(lost).sum();
    assert!(lost <= LOST_MAX, "{lost} datagrams were lost");
}

pub(crate) async fn all_are_cut(open_connections: &[LongLivedConnection]) {
    join_all(open_connections.iter().map(LongLivedConnection::is_cut)).await;
}
