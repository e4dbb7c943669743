//! Accepts TLS connections and serves HTTP/1.1 or HTTP/2 on them, with limits on number, time and size.
//! Entry point: [`HttpsServer::run`].

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rhumb_auth::authn::CertificateIdentity;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::host_header;
use super::idle_timeout::IdleDetector;
use super::sub_waker::PollOnWake;
use super::{ConnectionPeer, HttpService};
use rhumb_handlers::http::{ConnectionActivity, ResponseBody};

/// Limits per server and per connection.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    pub connections_max: usize,
    pub streams_per_connection_max: u32,
    pub header_bytes_max: u32,
    pub handshake_timeout: Duration,
    pub header_timeout: Duration,
    /// How long a connection may stay open without a request in progress.
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

/// Serves the API over TLS until it is stopped.
#[derive(Debug)]
pub struct HttpsServer {
    pub listener: TcpListener,
    /// HTTP/2 is offered if the ALPN protocols contain `h2`.
    pub tls: Arc<rustls::ServerConfig>,
    pub service: Arc<HttpService>,
    pub limits: ConnectionLimits,
}

impl HttpsServer {
    /// Serves until `stop` is cancelled, then waits for running requests for at most `drain`.
    pub async fn run(self, stop: CancellationToken, drain: Duration) {
        let acceptor = TlsAcceptor::from(self.tls);
        let protocols = Arc::new(HttpProtocolBuilders::new(&self.limits));
        let permits = Arc::new(Semaphore::new(self.limits.connections_max));
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
                    // Mostly too many open files, which is temporary.
                    tracing::warn!(%error, "failed to accept a connection; retrying in 100ms");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = permits.clone().try_acquire_owned() else {
                tracing::warn!(
                    %address,
                    limit = self.limits.connections_max,
                    "connection limit reached; closing the new connection"
                );
                continue;
            };
            let connection = ConnectionSetup {
                tls: acceptor.clone(),
                protocols: protocols.clone(),
                open_guard: OpenConnectionGuard::count(self.service.clone()),
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
            let _ = permits.acquire_many(all).await;
            self.service.sockets.wait_until_closed().await;
        };
        if tokio::time::timeout(drain, ended).await.is_err() {
            tracing::warn!(
                ?drain,
                "requests still running after the drain timeout; stopping anyway"
            );
        }
    }
}

/// hyper's connection builders. The client selects the protocol with ALPN; the default is HTTP/1.1, as upstream.
#[derive(Debug)]
struct HttpProtocolBuilders {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

/// ALPN identifier of HTTP/2.
const HTTP2_ALPN: &[u8] = b"h2";

impl HttpProtocolBuilders {
    fn new(limits: &ConnectionLimits) -> HttpProtocolBuilders {
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
        HttpProtocolBuilders { http1, http2 }
    }

    /// Boxed per protocol, so that an idle watch takes no more memory than its protocol needs.
    fn serve(
        &self,
        stream: TlsStream<TcpStream>,
        handler: impl RequestHandler + 'static,
    ) -> BoxedConnection {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2_ALPN);
        let stream = TokioIo::new(stream);
        if is_http2 {
            Box::pin(self.http2.serve_connection(stream, handler))
        } else {
            Box::pin(self.http1.serve_connection(stream, handler).with_upgrades())
        }
    }
}

/// A hyper connection of either protocol.
type BoxedConnection = Pin<Box<dyn GracefulConnection>>;

/// A future that serves a connection and can be shut down gracefully.
trait GracefulConnection: Future<Output = hyper::Result<()>> + Send {
    /// Finishes requests in progress and accepts no new ones.
    fn start_shutdown(self: Pin<&mut Self>);
}

impl<H: RequestHandler + 'static> GracefulConnection
    for http1::UpgradeableConnection<HyperTlsStream, H>
{
    fn start_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<H: RequestHandler + 'static> GracefulConnection
    for http2::Connection<HyperTlsStream, H, TokioExecutor>
{
    fn start_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Counts an open connection in the metrics until dropped.
struct OpenConnectionGuard(Arc<HttpService>);

impl OpenConnectionGuard {
    fn count(service: Arc<HttpService>) -> OpenConnectionGuard {
        service.metrics.connections.inc();
        OpenConnectionGuard(service)
    }
}

impl Drop for OpenConnectionGuard {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}

/// An accepted TCP connection, before and after its TLS handshake.
struct ConnectionSetup {
    tls: TlsAcceptor,
    protocols: Arc<HttpProtocolBuilders>,
    open_guard: OpenConnectionGuard,
    handshake_timeout: Duration,
    idle_timeout: Duration,
    stop: CancellationToken,
    /// Releases the connection's slot when dropped.
    _permit: OwnedSemaphorePermit,
}

/// Why the server closes a connection.
#[derive(PartialEq)]
enum CloseReason {
    /// The server is shutting down.
    ServerShutdown,
    /// The connection was idle for the timeout.
    Idle,
}

/// Future of a response.
type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

impl ConnectionSetup {
    async fn serve(self, stream: TcpStream, address: SocketAddr) {
        let activity = Arc::new(ConnectionActivity::default());
        let mut idle = IdleDetector::new(activity.clone(), self.idle_timeout);
        // Boxed: the memory of the handshake future is freed afterwards, instead of staying allocated for the hours
        // that a watch may last.
        let opened = Box::pin(self.handshake(stream, address, activity)).await;
        let Some(mut connection) = opened else {
            return;
        };
        let mut ending = false;
        loop {
            let reason = {
                let reason = pin!(self.close_reason(&mut idle, ending));
                tokio::select! {
                    biased;
                    ended = connection.as_mut() => {
                        if let Err(error) = ended {
                            tracing::debug!(%address, %error, "connection failed");
                        }
                        return;
                    }
                    reason = PollOnWake::new(reason) => reason,
                }
            };
            // Still idle after a graceful shutdown was started: drop the connection.
            if ending && reason == CloseReason::Idle {
                return;
            }
            // No request was ever sent; a graceful HTTP/2 shutdown would wait for a client that may stay silent.
            if idle.is_unused() {
                return;
            }
            ending = true;
            connection.as_mut().start_shutdown();
        }
    }

    /// Waits for a reason to close the connection. Once it is shutting down, only idleness counts.
    async fn close_reason(&self, idle: &mut IdleDetector, ending: bool) -> CloseReason {
        tokio::select! {
            () = self.stop.cancelled(), if !ending => CloseReason::ServerShutdown,
            () = idle.wait_until_idle() => CloseReason::Idle,
        }
    }

    /// Performs the TLS handshake; `None` if it fails or times out.
    async fn handshake(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        activity: Arc<ConnectionActivity>,
    ) -> Option<BoxedConnection> {
        let _ = stream.set_nodelay(true);
        let handshake = self.tls.accept(stream);
        let handshake = tokio::time::timeout(self.handshake_timeout, handshake).await;
        let stream = match handshake.ok()? {
            Ok(stream) => stream,
            Err(error) => {
                self.open_guard.0.metrics.tls_handshake_errors.inc();
                tracing::debug!(%address, %error, "TLS handshake failed");
                return None;
            }
        };
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates
            .and_then(<[_]>::first)
            .map(|leaf| CertificateIdentity::read(leaf));
        let peer = Arc::new(ConnectionPeer {
            address: address.ip().to_string(),
            certificate,
            ..ConnectionPeer::default()
        });
        let handler = handler(self.open_guard.0.clone(), peer, activity);
        Some(self.protocols.serve(stream, handler))
    }
}

type HyperTlsStream = TokioIo<TlsStream<TcpStream>>;

/// The hyper service of one connection.
trait RequestHandler:
    hyper::service::Service<
        Request<Incoming>,
        Response = Response<ResponseBody>,
        Error = Infallible,
        Future = ResponseFuture,
    > + Send
{
}

impl<S> RequestHandler for S where
    S: hyper::service::Service<
            Request<Incoming>,
            Response = Response<ResponseBody>,
            Error = Infallible,
            Future = ResponseFuture,
        > + Send
{
}

fn handler(
    service: Arc<HttpService>,
    peer: Arc<ConnectionPeer>,
    activity: Arc<ConnectionActivity>,
) -> impl RequestHandler {
    service_fn(move |request| -> ResponseFuture {
        let (service, peer) = (service.clone(), peer.clone());
        let active_request = activity.start_request();
        Box::pin(async move {
            let response = match host_header::rejection(request.version(), request.headers()) {
                Some(rejection) => rejection,
                None => service.answer(request, &peer).await,
            };
            Ok(response.map(|body| body.with_active_request(active_request)))
        })
    })
}
