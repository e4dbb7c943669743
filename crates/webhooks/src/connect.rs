//! How a connection is made: TCP to the first address that answers, then TLS.
//!
//! HTTP/1.1 is what is offered, and HTTP/2 to those who speak nothing else. Many replicas may stand behind one
//! address, and all calls over one connection would reach only one of them; and for small questions and answers,
//! a connection of one's own is faster.

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

use crate::lookups::{Lookups, Unknown};
use crate::target::Address;
use crate::texts;

/// A connection is given up after this long also when nobody waits for it any more. No call may take longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// After this long without an answer, the next address is tried beside the one before it.
const PATIENCE: Duration = Duration::from_millis(300);
/// How many addresses are tried for one connection.
const MAX_CANDIDATES: usize = 16;

/// Makes the connections of one pool, whatever URL they are for.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) server_name: ServerName<'static>,
    pub(crate) addresses: Arc<[Address]>,
    pub(crate) lookups: Lookups,
    pub(crate) http1: Arc<ClientConfig>,
    pub(crate) http2: Arc<ClientConfig>,
    /// Whether the server was found to speak HTTP/2 only.
    pub(crate) prefers_http2: Arc<AtomicBool>,
    /// Each connection begins with another address, so that all of them are used.
    pub(crate) turn: Arc<AtomicUsize>,
}

/// Why there is no connection, in the words of Go's `net` package.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("dial tcp {address}: {}", texts::dial(cause))]
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
    #[error("{}", texts::cause(.0))]
    Tls(io::Error),
}

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type Connecting = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Connecting {
        let connector = self.clone();
        Box::pin(async move {
            timeout(CONNECT_TIMEOUT, connector.connect())
                .await
                .unwrap_or(Err(ConnectError::TimedOut))
        })
    }
}

impl Connector {
    async fn connect(self) -> Result<Stream, ConnectError> {
        let prefers_http2 = self.prefers_http2.load(Ordering::Relaxed);
        let (first, second) = match prefers_http2 {
            true => (&self.http2, &self.http1),
            false => (&self.http1, &self.http2),
        };
        match self.connect_as(first).await {
            Err(ConnectError::Tls(error)) if is_other_protocol(&error) => {
                self.prefers_http2.store(!prefers_http2, Ordering::Relaxed);
                self.connect_as(second).await
            }
            outcome => outcome,
        }
    }

    async fn connect_as(&self, tls: &Arc<ClientConfig>) -> Result<Stream, ConnectError> {
        let candidates = self.candidates().await?;
        let tcp = first_of(candidates).await?;
        let tls = TlsConnector::from(tls.clone())
            .connect(self.server_name.clone(), TokioIo::new(TokioIo::new(tcp)))
            .await
            .map_err(ConnectError::Tls)?;
        Ok(MaybeHttpsStream::from(tls))
    }

    /// The addresses to try, in the order of trying. A name that nobody knows matters only if it is the last.
    async fn candidates(&self) -> Result<Vec<SocketAddr>, ConnectError> {
        let mut candidates = Vec::new();
        let mut unknown = None;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for place in 0..self.addresses.len().min(MAX_CANDIDATES) {
            let address = &self.addresses[turn.wrapping_add(place) % self.addresses.len()];
            match self.lookups.find(&address.host, address.port).await {
                Ok(found) => candidates.extend(found),
                Err(Unknown) => unknown = Some(address.host.clone()),
            }
        }
        candidates.truncate(MAX_CANDIDATES);
        match unknown {
            Some(host) if candidates.is_empty() => Err(ConnectError::Lookup { host }),
            _ => Ok(candidates),
        }
    }
}

/// Whether the server speaks something else than what was offered.
fn is_other_protocol(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(rustls::Error::AlertReceived(
            AlertDescription::NoApplicationProtocol
        ))
    )
}

/// Tries one address after the other. One that is silent holds the next only for a moment, and may still win.
async fn first_of(candidates: Vec<SocketAddr>) -> Result<TcpStream, ConnectError> {
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
        match timeout(PATIENCE, attempts.next()).await {
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
    // A call is one write: there is nothing to collect.
    let _ = connection.set_nodelay(true);
    Ok(connection)
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector")
            .field("server_name", &self.server_name)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}
