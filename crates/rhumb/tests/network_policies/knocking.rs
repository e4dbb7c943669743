//! Somebody who tries what is forbidden all the time, so that no moment is missed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rhumb_netpol::Protocol;
use tokio::net::UdpSocket;
use tokio::time::{interval, sleep, timeout};

use crate::cluster::until;
use crate::probe::{Probe, connect, nonce};
use crate::site::Site;

/// Between two datagrams.
const PAUSE: Duration = Duration::from_millis(2);
/// Between the beginnings of connections, each of which is given up when the next one begins.
const NEXT: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub(crate) struct Knocking {
    from: Arc<Site>,
    to: Arc<Site>,
    sent: Arc<Mutex<Vec<u32>>>,
}

impl Knocking {
    /// By all protocols and both families, for as long as the site is there.
    pub(crate) fn begin(from: &Arc<Site>, to: &Arc<Site>) -> Knocking {
        let knocking = Knocking {
            from: from.clone(),
            to: to.clone(),
            sent: Arc::default(),
        };
        for is_v4 in [true, false] {
            from.spawn(knocking.clone().send_datagrams(is_v4));
            from.spawn(knocking.clone().begin_connections(is_v4));
            let sctp = Probe::new(from, to, (Protocol::Sctp, 80), is_v4);
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
            // One that is refused is over at once.
            sleep(PAUSE).await;
        }
    }

    /// Waits until it has been tried so many times more.
    pub(crate) async fn some_more(&self, times: usize) {
        let count = || self.sent.lock().expect("a list").len();
        let until_count = count() + times;
        until("that it is tried", async || {
            (count() >= until_count).then_some(())
        })
        .await;
    }

    /// Fails if anything has ever arrived.
    pub(crate) fn was_in_vain(&self) {
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
