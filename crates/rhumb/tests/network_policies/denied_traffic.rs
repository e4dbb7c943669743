//! Continuous attempts of denied traffic, so that even a short gap in enforcement is detected.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rhumb_netpol::Protocol;
use tokio::net::UdpSocket;
use tokio::time::{interval, sleep, timeout};

use crate::network_namespace::NetworkNamespace;
use crate::probe::{ConnectionProbe, connect, nonce};
use crate::program::poll_until;

/// Interval between two datagrams.
const PAUSE: Duration = Duration::from_millis(2);
/// Interval between connection attempts; each attempt is aborted when the next one starts.
const NEXT: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub(crate) struct DeniedTraffic {
    from: Arc<NetworkNamespace>,
    to: Arc<NetworkNamespace>,
    sent: Arc<Mutex<Vec<u32>>>,
}

impl DeniedTraffic {
    /// Starts attempts with all protocols and both families, for the lifetime of the namespace.
    pub(crate) fn begin(from: &Arc<NetworkNamespace>, to: &Arc<NetworkNamespace>) -> DeniedTraffic {
        let knocking = DeniedTraffic {
            from: from.clone(),
            to: to.clone(),
            sent: Arc::default(),
        };
        for is_v4 in [true, false] {
            from.spawn(knocking.clone().send_datagrams(is_v4));
            from.spawn(knocking.clone().begin_connections(is_v4));
            let sctp = ConnectionProbe::new(from, to, (Protocol::Sctp, 80), is_v4);
            let own = knocking.clone();
            from.spawn(async move {
                loop {
                    let nonce = own.next();
                    let _ = timeout(NEXT, sctp.clone().attempt(nonce)).await;
                }
            });
        }
        knocking
    }

    fn next(&self) -> u32 {
        let nonce = nonce();
        self.sent.lock().expect("a list").push(nonce);
        nonce
    }

    async fn send_datagrams(self, is_v4: bool) {
        let source = self.from.address(is_v4);
        let to = SocketAddr::new(self.to.address(is_v4), 80);
        let socket = UdpSocket::bind((source, 0)).await.expect("a socket");
        let mut tick = interval(PAUSE);
        loop {
            tick.tick().await;
            let _ = socket.send_to(&self.next().to_be_bytes(), to).await;
        }
    }

    async fn begin_connections(self, is_v4: bool) {
        let source = self.from.address(is_v4);
        let to = SocketAddr::new(self.to.address(is_v4), 80);
        loop {
            let nonce = self.next();
            if let Ok(Ok(_)) = timeout(NEXT, connect(source, to)).await {
                self.to.note(nonce);
            }
            // A refused connection ends immediately.
            sleep(PAUSE).await;
        }
    }

    /// Waits for this many more attempts.
    pub(crate) async fn wait_for_attempts(&self, times: usize) {
        let count = || self.sent.lock().expect("a list").len();
        let until_count = count() + times;
        poll_until("that it is tried", async || {
            (count() >= until_count).then_some(())
        })
        .await;
    }

    /// Fails if anything has ever arrived.
    pub(crate) fn assert_nothing_arrived(&self) {
        let sent = self.sent.lock().expect("a list").clone();
        let arrived = sent
            .iter()
            .filter(|nonce| self.to.has_seen(**nonce))
            .count();
        let (from, to, of) = (&self.from.name, &self.to.name, sent.len());
        assert_eq!(
            arrived, 0,
            "of {of} tries from {from} to {to} so many arrived"
        );
    }
}
