//! Connections: accepted, wrapped in TLS, and bounded in number, time and size.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rhumb_auth::authn::CertifiedUser;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::idle::{Activity, IdleWatch};
use super::seldom::Seldom;
use super::tls::TlsStream;
use super::{Peer, Service};
use crate::http::Body;

/// What one client can take of the server.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    pub connections_max: usize,
    pub streams_per_connection_max: u32,
    pub header_bytes_max: u32,
    pub handshake_timeout: Duration,
    pub header_timeout: Duration,
    /// How long a connection may be open with nothing asked.
    pub idle_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections_max: 20_000,
            streams_per_connection_max: 100,
            header_bytes_max: 1024 * 1024,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(32),
            idle_timeout: Duration::from_secs(90),
        }
    }
}

/// Serves requests until it is told to stop.
#[derive(Debug)]
pub struct Server {
    pub listener: TcpListener,
    /// HTTP/2 is spoken where it names that among its protocols.
    pub tls: Arc<rustls::ServerConfig>,
    pub service: Arc<Service>,
    pub limits: ConnectionLimits,
}

impl Server {
    /// Serves until `stop`, then lets what is running finish, for at most `drain`.
    pub async fn run(self, stop: CancellationToken, drain: Duration) {
        let protocols = Arc::new(Protocols::new(&self.limits));
        let room = Arc::new(Semaphore::new(self.limits.connections_max));
        self.service
            .metrics
            .connections_max
            .set(i64::try_from(self.limits.connections_max).unwrap_or(i64::MAX));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Too many open files, mostly: it passes.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = room.clone().try_acquire_owned() else {
                tracing::warn!(%address, "a connection was refused: there are too many");
                continue;
            };
            let connection = Connection {
                tls: self.tls.clone(),
                protocols: protocols.clone(),
                open: Open::count(self.service.clone()),
                handshake_timeout: self.limits.handshake_timeout,
                idle_timeout: self.limits.idle_timeout,
                stop: stop.clone(),
                _permit: permit,
            };
            tokio::spawn(connection.serve(stream, address));
        }
        drop(self.listener);
        let all = u32::try_from(self.limits.connections_max).unwrap_or(u32::MAX);
        let ended = async {
            let _ = room.acquire_many(all).await;
            self.service.sockets.closed().await;
        };
        if tokio::time::timeout(drain, ended).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
    }
}

/// What connections speak. The client chooses in the handshake; one that does not gets HTTP/1.1, as from upstream.
#[derive(Debug)]
struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

/// How HTTP/2 is called in a handshake.
const HTTP2: &[u8] = b"h2";

impl Protocols {
    fn new(limits: &ConnectionLimits) -> Protocols {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(limits.header_bytes_max as usize)
            .half_close(false);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams_per_connection_max)
            .max_header_list_size(limits.header_bytes_max)
            .max_pending_accept_reset_streams(Some(20))
            .max_local_error_reset_streams(Some(100))
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(15));
        Protocols { http1, http2 }
    }

    /// In a box of its own for each protocol: an idle watch takes no more room than its protocol needs.
    fn serve(&self, stream: TlsStream, handler: impl Handler + 'static) -> Serving {
        let is_http2 = stream.protocol() == Some(HTTP2);
        let stream = TokioIo::new(stream);
        if is_http2 {
            Box::pin(self.http2.serve_connection(stream, handler))
        } else {
            Box::pin(self.http1.serve_connection(stream, handler).with_upgrades())
        }
    }
}

/// A connection that answers requests until it ends.
type Serving = Pin<Box<dyn Serve>>;

trait Serve: Future<Output = hyper::Result<()>> + Send {
    /// Lets it finish what is under way, and no more.
    fn end_soon(self: Pin<&mut Self>);
}

impl<H: Handler + 'static> Serve for http1::UpgradeableConnection<Stream, H> {
    fn end_soon(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<H: Handler + 'static> Serve for http2::Connection<Stream, H, TokioExecutor> {
    fn end_soon(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Counts a connection as long as it lives.
struct Open(Arc<Service>);

impl Open {
    fn count(service: Arc<Service>) -> Open {
        service.metrics.connections.inc();
        Open(service)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}

struct Connection {
    tls: Arc<rustls::ServerConfig>,
    protocols: Arc<Protocols>,
    open: Open,
    handshake_timeout: Duration,
    idle_timeout: Duration,
    stop: CancellationToken,
    /// Given back when it ends.
    _permit: OwnedSemaphorePermit,
}

/// Why a connection ends.
#[derive(PartialEq)]
enum Reason {
    /// The server ends.
    Stop,
    /// Nobody used it for some time.
    Unused,
}

/// An answer that is being made.
type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Connection {
    async fn serve(self, stream: TcpStream, address: SocketAddr) {
        let activity = Arc::new(Activity::default());
        let mut idle = IdleWatch::new(activity.clone(), self.idle_timeout);
        // In boxes of their own: the room to open a connection would stay as long as it lives, which is hours if it
        // carries a watch.
        let opened = Box::pin(self.open(stream, address, activity)).await;
        let Some(mut connection) = opened else {
            return;
        };
        let mut ending = false;
        loop {
            let reason = {
                let reason = pin!(self.reason_to_end(&mut idle, ending));
                tokio::select! {
                    biased;
                    ended = connection.as_mut() => {
                        if let Err(error) = ended {
                            tracing::debug!(%address, %error, "a connection broke");
                        }
                        return;
                    }
                    reason = Seldom::new(reason) => reason,
                }
            };
            // One that was asked to end before, and that still nobody uses, is dropped.
            if ending && reason == Reason::Unused {
                return;
            }
            // Nothing is under way, and HTTP/2 would first wait for a client that may never say anything.
            if idle.is_unused() {
                return;
            }
            // What is under way is finished.
            ending = true;
            connection.as_mut().end_soon();
        }
    }

    /// Why the connection should end; one that is ending is only looked at now and then.
    async fn reason_to_end(&self, idle: &mut IdleWatch, ending: bool) -> Reason {
        tokio::select! {
            () = self.stop.cancelled(), if !ending => Reason::Stop,
            () = idle.idle() => Reason::Unused,
        }
    }

    /// A connection that is ready for requests; `None` if it comes to nothing.
    async fn open(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        activity: Arc<Activity>,
    ) -> Option<Serving> {
        let _ = stream.set_nodelay(true);
        let handshake = TlsStream::accept(self.tls.clone(), stream);
        let handshake = tokio::time::timeout(self.handshake_timeout, handshake).await;
        let stream = match handshake.ok()? {
            Ok(stream) => stream,
            Err(error) => {
                self.open.0.metrics.tls_handshake_errors.inc();
                tracing::debug!(%address, %error, "a TLS handshake failed");
                return None;
            }
        };
        let certificate = stream.certificate().map(|leaf| CertifiedUser::read(leaf));
        let peer = Arc::new(Peer {
            address: address.ip().to_string(),
            certificate,
            ..Peer::default()
        });
        let handler = handler(self.open.0.clone(), peer, activity);
        Some(self.protocols.serve(stream, handler))
    }
}

type Stream = TokioIo<TlsStream>;

/// What answers the requests of one connection.
trait Handler:
    hyper::service::Service<
        Request<Incoming>,
        Response = Response<Body>,
        Error = Infallible,
        Future = Answer,
    > + Send
{
}

impl<S> Handler for S where
    S: hyper::service::Service<
            Request<Incoming>,
            Response = Response<Body>,
            Error = Infallible,
            Future = Answer,
        > + Send
{
}

fn handler(service: Arc<Service>, peer: Arc<Peer>, activity: Arc<Activity>) -> impl Handler {
    service_fn(move |request| -> Answer {
        let (service, peer, activity) = (service.clone(), peer.clone(), activity.clone());
        activity.requests.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let response = service.answer(request, &peer).await;
            Ok(response.map(|body| body.of(activity)))
        })
    })
}
