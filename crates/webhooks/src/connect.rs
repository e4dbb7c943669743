//! Opens connections for a pool: TCP to the first address that accepts, then TLS.
//!
//! The connector offers HTTP/1.1, and HTTP/2 only to servers that support nothing else. Many replicas may stand behind
//! one address, and multiplexing all calls over one HTTP/2 connection would reach only one of them; for small requests
//! a connection of its own is also faster.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use rustls::{AlertDescription, ClientConfig};
use rustls_pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower::Service;

use crate::error_texts;
use crate::host_resolver::{HostLookupError, HostResolver};
use crate::target::TargetAddress;

/// Timeout of a connection attempt, also when the call that started it was cancelled. No call may take longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for an address before the next one is tried in parallel (RFC 8305 "Connection Attempt Delay").
const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(300);
/// Maximum number of addresses tried for one connection.
const MAX_CANDIDATES: usize = 16;

/// Opens the connections of one pool, whatever URL is requested (a hyper-util connector).
#[derive(Clone)]
pub(crate) struct WebhookConnector {
    pub(crate) server_name: ServerName<'static>,
    pub(crate) addresses: Arc<[TargetAddress]>,
    pub(crate) lookups: HostResolver,
    pub(crate) http1: Arc<ClientConfig>,
    pub(crate) http2: Arc<ClientConfig>,
    /// Whether the server was found to support HTTP/2 only.
    pub(crate) prefers_http2: Arc<AtomicBool>,
    /// Round-robin counter: each connection starts with another address, so that all replicas are used.
    pub(crate) next_address: Arc<AtomicUsize>,
}

/// Why a connection could not be opened, worded like Go's `net` package.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("dial tcp {address}: {}", error_texts::dial_error_message(cause))]
    Dial {
        address: SocketAddr,
        cause: io::Error,
    },
    #[error("dial tcp: lookup {host}: no such host")]
    Lookup { host: String },
    #[error("dial tcp: no address to connect to")]
    NoAddress,
    #[error("dial tcp: i/o timeout")]
    TimedOut,
    #[error("{}", error_texts::error_message(.0))]
    Tls(io::Error),
}

type ConnectionStream = MaybeHttpsStream<TokioIo<TcpStream>>;
type ConnectFuture = Pin<Box<dyn Future<Output = Result<ConnectionStream, ConnectError>> + Send>>;

impl Service<Uri> for WebhookConnector {
    type Response = ConnectionStream;
    type Error = ConnectError;
    type Future = ConnectFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> ConnectFuture {
        let connector = self.clone();
        Box::pin(async move {
            timeout(CONNECT_TIMEOUT, connector.connect())
                .await
                .unwrap_or(Err(ConnectError::TimedOut))
        })
    }
}

impl WebhookConnector {
    async fn connect(self) -> Result<ConnectionStream, ConnectError> {
        let prefers_http2 = self.prefers_http2.load(Ordering::Relaxed);
        let (first, second) = match prefers_http2 {
            true => (&self.http2, &self.http1),
            false => (&self.http1, &self.http2),
        };
        match self.connect_with(first).await {
            Err(ConnectError::Tls(error)) if is_alpn_mismatch(&error) => {
                self.prefers_http2.store(!prefers_http2, Ordering::Relaxed);
                self.connect_with(second).await
            }
            outcome => outcome,
        }
    }

    async fn connect_with(
        &self,
        tls: &Arc<ClientConfig>,
    ) -> Result<ConnectionStream, ConnectError> {
        let candidates = self.candidates().await?;
        let tcp = connect_first(candidates).await?;
        let tls = TlsConnector::from(tls.clone())
            .connect(self.server_name.clone(), TokioIo::new(TokioIo::new(tcp)))
            .await
            .map_err(ConnectError::Tls)?;
        Ok(MaybeHttpsStream::from(tls))
    }

    /// The addresses to try, in order. A failed DNS lookup is an error only if no other name resolves.
    async fn candidates(&self) -> Result<Vec<SocketAddr>, ConnectError> {
        let mut candidates = Vec::new();
        let mut unknown = None;
        let first = self.next_address.fetch_add(1, Ordering::Relaxed);
        for offset in 0..self.addresses.len().min(MAX_CANDIDATES) {
            let address = &self.addresses[first.wrapping_add(offset) % self.addresses.len()];
            match self.lookups.lookup(&address.host, address.port).await {
                Ok(found) => candidates.extend(found),
                Err(HostLookupError) => unknown = Some(address.host.clone()),
            }
        }
        candidates.truncate(MAX_CANDIDATES);
        match unknown {
            Some(host) if candidates.is_empty() => Err(ConnectError::Lookup { host }),
            _ => Ok(candidates),
        }
    }
}

/// Whether the server rejected the offered protocol (TLS alert `no_application_protocol`).
fn is_alpn_mismatch(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(rustls::Error::AlertReceived(
            AlertDescription::NoApplicationProtocol
        ))
    )
}

/// Connects to the first address that accepts ("happy eyeballs"). An address that does not respond delays the next
/// attempt only for `CONNECTION_ATTEMPT_DELAY`, and may still win.
async fn connect_first(candidates: Vec<SocketAddr>) -> Result<TcpStream, ConnectError> {
    let mut candidates = candidates.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut first_failure = None;
    loop {
        match candidates.next() {
            Some(address) => attempts.push(dial(address)),
            None if attempts.is_empty() => {
                return Err(first_failure.unwrap_or(ConnectError::NoAddress));
            }
            None => {}
        }
        match timeout(CONNECTION_ATTEMPT_DELAY, attempts.next()).await {
            Ok(Some(Ok(connection))) => return Ok(connection),
            Ok(Some(Err(failure))) => {
                first_failure.get_or_insert(failure);
            }
            Ok(None) | Err(_) => {}
        }
    }
}

async fn dial(address: SocketAddr) -> Result<TcpStream, ConnectError> {
    let connection = TcpStream::connect(address).await;
    let connection = connection.map_err(|cause| ConnectError::Dial { address, cause })?;
    // A call is a single write: Nagle's algorithm would only delay it.
    let _ = connection.set_nodelay(true);
    Ok(connection)
}

impl std::fmt::Debug for WebhookConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookConnector")
            .field("server_name", &self.server_name)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}
