//! A TCP proxy that holds back or drops requests and responses on demand.
//!
//! gRPC over plain TCP is not compressed, so the keys of a request are visible in its bytes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::eventually;

#[derive(Debug)]
pub(crate) struct TcpFaultProxy {
    address: SocketAddr,
    shared: Arc<ProxyState>,
    accept_task: AbortHandle,
}

#[derive(Debug, Default)]
struct ProxyState {
    connections: Mutex<Vec<ProxiedConnection>>,
    /// New connections are closed at once.
    closed: AtomicBool,
    /// From the first request that contains this text on, no response on its connection reaches the client.
    unanswered: Mutex<Option<String>>,
}

/// Both directions of one connection.
#[derive(Debug, Clone)]
struct ProxiedConnection {
    requests: Arc<ProxyDirection>,
    responses: Arc<ProxyDirection>,
    request_pump: AbortHandle,
    response_pump: AbortHandle,
}

/// One direction of a connection: forwards bytes or holds them back.
#[derive(Debug)]
struct ProxyDirection {
    is_holding: AtomicBool,
    held: Mutex<Vec<u8>>,
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
}

impl TcpFaultProxy {
    pub(crate) async fn to(server: SocketAddr) -> TcpFaultProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<ProxyState>::default();
        let accept_task = tokio::spawn(accept(listener, server, shared.clone())).abort_handle();
        TcpFaultProxy {
            address,
            shared,
            accept_task,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn tls_endpoint(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Holds back all requests on the current connections.
    pub(crate) fn hold_requests(&self) {
        for connection in self.connections() {
            connection.requests.is_holding.store(true, Ordering::SeqCst);
        }
    }

    /// Holds back all responses on the current connections.
    pub(crate) fn hold_responses(&self) {
        self.hold_responses_after(0);
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections().len()
    }

    /// The same, except on the `oldest` first connections.
    pub(crate) fn hold_responses_after(&self, oldest: usize) {
        for connection in self.connections().into_iter().skip(oldest) {
            connection
                .responses
                .is_holding
                .store(true, Ordering::SeqCst);
        }
    }

    /// Holds back the response to the first request that contains this text, and all later ones on its connection.
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

    /// Delivers the held responses and stops holding.
    pub(crate) async fn release_responses(&self) {
        for connection in self.connections() {
            let mut client = connection.responses.writer.lock().await;
            connection
                .responses
                .is_holding
                .store(false, Ordering::SeqCst);
            let held = std::mem::take(&mut *connection.responses.held.lock().unwrap());
            client.write_all(&held).await.unwrap();
        }
    }

    /// Closes all connections. Held bytes are lost.
    pub(crate) async fn cut(&self) {
        for connection in self.shared.connections.lock().unwrap().drain(..) {
            connection.request_pump.abort();
            connection.response_pump.abort();
        }
    }

    /// Closes all connections, and rejects new ones until [`Self::open`].
    pub(crate) async fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.cut().await;
    }

    pub(crate) fn open(&self) {
        self.shared.closed.store(false, Ordering::SeqCst);
    }

    /// Closes only the client side; held requests can still be delivered.
    pub(crate) async fn cut_clients(&self) -> DelayedRequests {
        let connections: Vec<_> = self.shared.connections.lock().unwrap().drain(..).collect();
        for connection in &connections {
            connection
                .responses
                .is_holding
                .store(true, Ordering::SeqCst);
            connection.request_pump.abort();
            let mut client = connection.responses.writer.lock().await;
            let _ = client.shutdown().await;
        }
        DelayedRequests { connections }
    }

    fn connections(&self) -> Vec<ProxiedConnection> {
        self.shared.connections.lock().unwrap().clone()
    }
}

impl Drop for TcpFaultProxy {
    fn drop(&mut self) {
        self.accept_task.abort();
        for connection in self.connections() {
            connection.request_pump.abort();
            connection.response_pump.abort();
        }
    }
}

/// Held requests whose clients are already disconnected.
pub(crate) struct DelayedRequests {
    connections: Vec<ProxiedConnection>,
}

impl DelayedRequests {
    /// Delivers the requests, and waits until a response contains the text.
    pub(crate) async fn deliver_until_answered_with(self, text: &str) {
        for connection in &self.connections {
            let held = std::mem::take(&mut *connection.requests.held.lock().unwrap());
            let mut server = connection.requests.writer.lock().await;
            server.write_all(&held).await.unwrap();
        }
        eventually("the delayed request is answered", async || {
            self.connections
                .iter()
                .any(|connection| connection.responses.holds(text))
        })
        .await;
    }
}

impl ProxyDirection {
    fn new(writer: OwnedWriteHalf) -> Arc<ProxyDirection> {
        Arc::new(ProxyDirection {
            is_holding: AtomicBool::new(false),
            held: Mutex::default(),
            writer: tokio::sync::Mutex::new(writer),
        })
    }

    fn holds(&self, text: &str) -> bool {
        contains(&self.held.lock().unwrap(), text)
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, shared: Arc<ProxyState>) {
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
        let requests = ProxyDirection::new(server_writer);
        let responses = ProxyDirection::new(client_writer);
        let connection = ProxiedConnection {
            request_pump: {
                let (shared, responses) = (shared.clone(), responses.clone());
                let inspect = move |bytes: &[u8]| shared.check_request(bytes, &responses);
                tokio::spawn(pump(client_reader, requests.clone(), inspect)).abort_handle()
            },
            response_pump: tokio::spawn(pump(server_reader, responses.clone(), |_| ()))
                .abort_handle(),
            requests,
            responses,
        };
        shared.connections.lock().unwrap().push(connection);
    }
}

impl ProxyState {
    fn check_request(&self, request: &[u8], responses: &ProxyDirection) {
        let mut unanswered = self.unanswered.lock().unwrap();
        if unanswered.take_if(|text| contains(request, text)).is_some() {
            responses.is_holding.store(true, Ordering::SeqCst);
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

async fn pump(mut from: OwnedReadHalf, to: Arc<ProxyDirection>, inspect: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        inspect(&buffer[..count]);
        let mut writer = to.writer.lock().await;
        if to.is_holding.load(Ordering::SeqCst) {
            to.held.lock().unwrap().extend_from_slice(&buffer[..count]);
        } else if writer.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    let _ = to.writer.lock().await.shutdown().await;
}
