//! Connections on which something is said all the time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::time::{interval, sleep, timeout};

use crate::cluster::{PATIENCE, until};
use crate::probe::{connect, read_name};
use crate::site::Site;

const PAUSE: Duration = Duration::from_millis(5);
/// Who is let through is heard in far less.
const SILENCE: Duration = Duration::from_millis(500);

/// A datagram that is not answered for so long is lost, however busy the machine is.
const LOST: Duration = Duration::from_secs(5);
/// Packets that are under way at the very moment of a change may be dropped. If rules were missing for longer, every
/// talk would lose one.
const LOST_MAX: u32 = 2;
const AGAIN: Duration = Duration::from_millis(100);

/// Numbers are said all the time, and what is heard of them is counted.
#[derive(Debug, Clone)]
pub(crate) struct Talk {
    what: String,
    said: Arc<AtomicU32>,
    heard: Arc<AtomicU32>,
    lost: Arc<AtomicU32>,
}

impl Talk {
    fn new(what: &str, from: &Site, to: &Site) -> Talk {
        Talk {
            what: format!("{what} from {} to {}", from.name, to.name),
            said: Arc::default(),
            heard: Arc::default(),
            lost: Arc::default(),
        }
    }

    /// One connection of TCP: a number is said and heard back before the next one.
    pub(crate) async fn tcp(from: &Arc<Site>, to: &Arc<Site>, is_v4: bool) -> Talk {
        let talk = Talk::new("TCP", from, to);
        let (source, target) = (from.address(is_v4), to.address(is_v4));
        let (begun, begins) = oneshot::channel();
        let own = talk.clone();
        from.spawn(async move {
            let mut stream = connect(source, SocketAddr::new(target, 80)).await?;
            read_name(&mut stream).await?;
            let _ = begun.send(());
            for number in 1.. {
                own.said.store(number, Ordering::SeqCst);
                stream.write_u32(number).await?;
                let echoed = stream.read_u32().await?;
                own.heard.store(echoed, Ordering::SeqCst);
                sleep(PAUSE).await;
            }
            Ok::<(), std::io::Error>(())
        });
        talk.begun(begins).await
    }

    /// The same by datagrams, of which it is known how many are lost.
    pub(crate) async fn udp(from: &Arc<Site>, to: &Arc<Site>, is_v4: bool) -> Talk {
        let talk = Talk::new("UDP", from, to);
        let (source, target) = (from.address(is_v4), to.address(is_v4));
        let (begun, begins) = oneshot::channel();
        let own = talk.clone();
        from.spawn(async move {
            let socket = UdpSocket::bind((source, 0)).await?;
            socket.connect((target, 80)).await?;
            let _ = begun.send(());
            for number in 1.. {
                own.said.store(number, Ordering::SeqCst);
                socket.send(b"anything").await?;
                while hear(&socket, LOST).await.is_none() {
                    own.lost.fetch_add(1, Ordering::SeqCst);
                    socket.send(b"anything").await?;
                }
                own.heard.store(number, Ordering::SeqCst);
                sleep(PAUSE).await;
            }
            Ok::<(), std::io::Error>(())
        });
        talk.begun(begins).await
    }

    /// Datagrams from the one that was asked once, and never again.
    pub(crate) async fn stream(from: &Arc<Site>, to: &Arc<Site>, is_v4: bool) -> Talk {
        let talk = Talk::new("a stream to", from, to);
        let (source, target) = (from.address(is_v4), to.address(is_v4));
        let server = to.spawn(UdpSocket::bind((target, 0))).await;
        let server = server.expect("a task").expect("a socket");
        let at = server.local_addr().expect("an address");
        let own = talk.clone();
        to.spawn(async move {
            let (_, asking) = server.recv_from(&mut [0; 16]).await?;
            let mut tick = interval(PAUSE);
            for number in 1_u32.. {
                tick.tick().await;
                own.said.store(number, Ordering::SeqCst);
                let _ = server.send_to(&number.to_be_bytes(), asking).await;
            }
            Ok::<(), std::io::Error>(())
        });
        let (begun, begins) = oneshot::channel();
        let own = talk.clone();
        from.spawn(async move {
            let socket = UdpSocket::bind((source, 0)).await?;
            socket.connect(at).await?;
            socket.send(b"go").await?;
            while hear(&socket, AGAIN).await.is_none() {
                socket.send(b"go").await?;
            }
            let _ = begun.send(());
            let mut number = [0; 4];
            while socket.recv(&mut number).await.is_ok() {
                own.heard
                    .store(u32::from_be_bytes(number), Ordering::SeqCst);
            }
            Ok::<(), std::io::Error>(())
        });
        talk.begun(begins).await
    }

    async fn begun(self, begins: oneshot::Receiver<()>) -> Talk {
        let begun = timeout(PATIENCE, begins).await;
        assert!(matches!(begun, Ok(Ok(()))), "{}: no connection", self.what);
        self.goes_on().await;
        self
    }

    /// Waits until something is heard that was said after this was asked.
    pub(crate) async fn goes_on(&self) {
        let said = self.said.load(Ordering::SeqCst);
        until(&format!("that {} goes on", self.what), async || {
            (self.heard.load(Ordering::SeqCst) > said).then_some(())
        })
        .await;
    }

    /// Fails if anything is heard that is said from now on.
    pub(crate) async fn is_cut(&self) {
        let said = self.said.load(Ordering::SeqCst);
        sleep(SILENCE).await;
        let heard = self.heard.load(Ordering::SeqCst);
        assert!(heard <= said, "{} is not cut", self.what);
    }
}

/// Anything at all, if it comes in time.
async fn hear(socket: &UdpSocket, patience: Duration) -> Option<usize> {
    let mut buffer = [0; 256];
    timeout(patience, socket.recv(&mut buffer)).await.ok()?.ok()
}

/// Fails also if too much was lost on the way.
pub(crate) async fn all_go_on(talks: &[Talk]) {
    join_all(talks.iter().map(Talk::goes_on)).await;
    let lost = |talk: &Talk| talk.lost.load(Ordering::SeqCst);
    let lost: u32 = talks.iter().map(lost).sum();
    assert!(lost <= LOST_MAX, "{lost} datagrams were lost");
}

pub(crate) async fn all_are_cut(talks: &[Talk]) {
    join_all(talks.iter().map(Talk::is_cut)).await;
}
