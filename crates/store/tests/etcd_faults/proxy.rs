//! A TCP proxy that loses what it is told to lose.
//!
//! gRPC over plain TCP is not compressed, so the keys of a request can be seen in its bytes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::eventually;

#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

#[derive(Debug, Default)]
struct Shared {
    connections: Mutex<Vec<Connection>>,
    /// Whether new connections are closed at once.
    closed: AtomicBool,
    /// From a request with this text on, nothing of its connection reaches the client.
    unanswered: Mutex<Option<String>>,
}

/// Both directions of one connection.
#[derive(Debug, Clone)]
struct Connection {
    requests: Arc<Lane>,
    responses: Arc<Lane>,
    request_pump: AbortHandle,
    response_pump: AbortHandle,
}

/// One direction: what is read is written on, or held.
#[derive(Debug)]
struct Lane {
    holding: AtomicBool,
    held: Mutex<Vec<u8>>,
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let accepting = tokio::spawn(accept(listener, server, shared.clone())).abort_handle();
        Proxy {
            address,
            shared,
            accepting,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn tls_endpoint(&self) -> String {
        format!("https://{}", self.address)
    }

    /// From now on nothing of the present connections reaches the server.
    pub(crate) fn hold_requests(&self) {
        for connection in self.connections() {
            connection.requests.holding.store(true, Ordering::SeqCst);
        }
    }

    /// From now on nothing of the present connections reaches the client.
    pub(crate) fn hold_responses(&self) {
        self.hold_responses_after(0);
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections().len()
    }

    /// The same, but for the oldest connections.
    pub(crate) fn hold_responses_after(&self, oldest: usize) {
        for connection in self.connections().into_iter().skip(oldest) {
            connection.responses.holding.store(true, Ordering::SeqCst);
        }
    }

    /// The answer to the first request with this text never reaches the client, nor any after it on the same
    /// connection.
    pub(crate) fn hold_response_to(&self, text: &str) {
        *self.shared.unanswered.lock().unwrap() = Some(text.to_owned());
    }

    pub(crate) async fn holds_request_with(&self, text: &str) {
        let connections = self.connections();
        eventually("the request is held", async || {
            connections
                .iter()
                .any(|connection| connection.requests.holds(text))
        })
        .await;
    }

    pub(crate) async fn holds_response_with(&self, text: &str) {
        let connections = self.connections();
        eventually("the response is held", async || {
            connections
                .iter()
                .any(|connection| connection.responses.holds(text))
        })
        .await;
    }

    /// What was held reaches the clients after all, and so does what follows.
    pub(crate) async fn release_responses(&self) {
        for connection in self.connections() {
            let mut client = connection.responses.writer.lock().await;
            connection.responses.holding.store(false, Ordering::SeqCst);
            let held = std::mem::take(&mut *connection.responses.held.lock().unwrap());
            client.write_all(&held).await.unwrap();
        }
    }

    /// Closes all connections. What is held is lost.
    pub(crate) async fn cut(&self) {
        for connection in self.shared.connections.lock().unwrap().drain(..) {
            connection.request_pump.abort();
            connection.response_pump.abort();
        }
    }

    /// Closes all connections, and new ones at once until [`Self::open`].
    pub(crate) async fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.cut().await;
    }

    pub(crate) fn open(&self) {
        self.shared.closed.store(false, Ordering::SeqCst);
    }

    /// Closes the clients' side only; what is held can still be delivered.
    pub(crate) async fn cut_clients(&self) -> HeldRequests {
        let connections: Vec<_> = self.shared.connections.lock().unwrap().drain(..).collect();
        for connection in &connections {
            connection.responses.holding.store(true, Ordering::SeqCst);
            connection.request_pump.abort();
            let mut client = connection.responses.writer.lock().await;
            let _ = client.shutdown().await;
        }
        HeldRequests { connections }
    }

    fn connections(&self) -> Vec<Connection> {
        self.shared.connections.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        for connection in self.connections() {
            connection.request_pump.abort();
            connection.response_pump.abort();
        }
    }
}

/// Requests of clients that have given up, still on their way.
pub(crate) struct HeldRequests {
    connections: Vec<Connection>,
}

impl HeldRequests {
    /// Delivers them, and waits until the server has answered with a text.
    pub(crate) async fn deliver_until_answered_with(self, text: &str) {
        for connection in &self.connections {
            let held = std::mem::take(&mut *connection.requests.held.lock().unwrap());
            let mut server = connection.requests.writer.lock().await;
            server.write_all(&held).await.unwrap();
        }
        eventually("the late request is answered", async || {
            self.connections
                .iter()
                .any(|connection| connection.responses.holds(text))
        })
        .await;
    }
}

impl Lane {
    fn new(writer: OwnedWriteHalf) -> Arc<Lane> {
        Arc::new(Lane {
            holding: AtomicBool::new(false),
            held: Mutex::default(),
            writer: tokio::sync::Mutex::new(writer),
        })
    }

    fn holds(&self, text: &str) -> bool {
        contains(&self.held.lock().unwrap(), text)
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, shared: Arc<Shared>) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        if shared.closed.load(Ordering::SeqCst) {
            continue;
        }
        let Ok(server) = TcpStream::connect(server).await else {
            continue;
        };
        let (client_reader, client_writer) = client.into_split();
        let (server_reader, server_writer) = server.into_split();
        let requests = Lane::new(server_writer);
        let responses = Lane::new(client_writer);
        let connection = Connection {
            request_pump: {
                let (shared, responses) = (shared.clone(), responses.clone());
                let look = move |bytes: &[u8]| shared.look(bytes, &responses);
                tokio::spawn(pump(client_reader, requests.clone(), look)).abort_handle()
            },
            response_pump: tokio::spawn(pump(server_reader, responses.clone(), |_| ()))
                .abort_handle(),
            requests,
            responses,
        };
        shared.connections.lock().unwrap().push(connection);
    }
}

impl Shared {
    fn look(&self, request: &[u8], responses: &Lane) {
        let mut unanswered = self.unanswered.lock().unwrap();
        if unanswered.take_if(|text| contains(request, text)).is_some() {
            responses.holding.store(true, Ordering::SeqCst);
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

async fn pump(mut from: OwnedReadHalf, to: Arc<Lane>, look: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        look(&buffer[..count]);
        let mut writer = to.writer.lock().await;
        if to.holding.load(Ordering::SeqCst) {
            to.held.lock().unwrap().extend_from_slice(&buffer[..count]);
        } else if writer.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    let _ = to.writer.lock().await.shutdown().await;
}
