//! Connections over TLS that do as little as they can: the machine is for the server.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::Resumption;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The token that all servers that are started here are told to know.
pub(crate) const TOKEN: &str = "benchmark";

const JSON: &str = "application/json";

/// What a client that reads keeps ready for a watch, which is what HTTP/2 begins with.
const STREAM_WINDOW_BYTES: u32 = 65_535;

/// As little as the kernel allows, for a client that does not read.
const STALLED_RECEIVE_BYTES: u32 = 4096;

/// What a watcher's connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Http {
    #[value(name = "1.1")]
    One,
    #[value(name = "2")]
    Two,
}

impl Http {
    /// As it is named in arguments.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Http::One => "1.1",
            Http::Two => "2",
        }
    }
}

/// Where a server is and whom to trust.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    host: Arc<str>,
    port: u16,
    token: Arc<str>,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl Endpoint {
    /// A server on this machine that knows [`TOKEN`].
    pub(crate) fn local(port: u16, trusted_pem: &[u8]) -> Result<Self> {
        Self::new("127.0.0.1", port, TOKEN, trusted_pem)
    }

    pub(crate) fn new(host: &str, port: u16, token: &str, trusted_pem: &[u8]) -> Result<Self> {
        let mut trusted = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(trusted_pem) {
            // A server's own certificate may stand there too, which is no authority.
            let _ = trusted.add(certificate?);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        // Each connection is a client of its own, so none has met the server before.
        tls.resumption = Resumption::disabled();
        let http1 = Arc::new(tls.clone());
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            host: host.into(),
            port,
            token: token.into(),
            http1,
            http2: Arc::new(tls),
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}:{}", self.host, self.port)
    }

    /// A connection for one request after the other.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let socket = TcpStream::connect((&*self.host, self.port)).await?;
        let stream = self.secure(socket, &self.http1).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let endpoint = self.clone();
        Ok(Connection { endpoint, sender })
    }

    /// A watch on a connection of its own, which ends with it.
    pub(crate) async fn watch(&self, path: &str, http: Http) -> Result<Incoming> {
        self.connect_to_watch(http).await?.watch(path).await
    }

    /// A connection for one watch after the other.
    pub(crate) async fn connect_to_watch(&self, http: Http) -> Result<WatchConnection> {
        let socket = TcpStream::connect((&*self.host, self.port)).await?;
        self.watch_on(socket, http).await
    }

    /// A watch whose client has next to no room: when it does not read, the server soon cannot send.
    pub(crate) async fn stalled_watch(&self, path: &str, http: Http) -> Result<Incoming> {
        let address = tokio::net::lookup_host((&*self.host, self.port))
            .await?
            .next()
            .with_context(|| format!("{} has no address", self.host))?;
        let socket = match address.is_ipv4() {
            true => TcpSocket::new_v4()?,
            false => TcpSocket::new_v6()?,
        };
        socket.set_recv_buffer_size(STALLED_RECEIVE_BYTES)?;
        let socket = socket.connect(address).await?;
        self.watch_on(socket, http).await?.watch(path).await
    }

    async fn watch_on(&self, socket: TcpStream, http: Http) -> Result<WatchConnection> {
        let sender = match http {
            Http::One => {
                let stream = TokioIo::new(self.secure(socket, &self.http1).await?);
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                WatchSender::One(sender)
            }
            Http::Two => {
                let stream = TokioIo::new(self.secure(socket, &self.http2).await?);
                let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .initial_stream_window_size(STREAM_WINDOW_BYTES)
                    .initial_connection_window_size(STREAM_WINDOW_BYTES)
                    .handshake(stream)
                    .await?;
                tokio::spawn(connection);
                WatchSender::Two(sender)
            }
        };
        let endpoint = self.clone();
        Ok(WatchConnection { endpoint, sender })
    }

    async fn secure(
        &self,
        socket: TcpStream,
        tls: &Arc<ClientConfig>,
    ) -> Result<TlsStream<TcpStream>> {
        socket.set_nodelay(true)?;
        let name = ServerName::try_from(self.host.to_string())?;
        Ok(TlsConnector::from(tls.clone())
            .connect(name, socket)
            .await?)
    }

    fn request(
        &self,
        http: Http,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>> {
        let (host, port) = (&self.host, self.port);
        let request = match http {
            Http::One => Request::builder().uri(path).header("host", &**host),
            Http::Two => Request::builder().uri(format!("https://{host}:{port}{path}")),
        };
        let request = request
            .method(method)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", content_type)
            .body(Full::new(body))?;
        Ok(request)
    }
}

/// A connection that has one watch at a time.
pub(crate) struct WatchConnection {
    endpoint: Endpoint,
    sender: WatchSender,
}

enum WatchSender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl WatchConnection {
    /// Begins a watch, after the one before it has ended.
    pub(crate) async fn watch(&mut self, path: &str) -> Result<Incoming> {
        let request = |http| {
            self.endpoint
                .request(http, Method::GET, path, JSON, Bytes::new())
        };
        let answer = match &mut self.sender {
            WatchSender::One(sender) => {
                sender.ready().await.context("the connection ended")?;
                sender.send_request(request(Http::One)?).await?
            }
            WatchSender::Two(sender) => {
                sender.ready().await.context("the connection ended")?;
                sender.send_request(request(Http::Two)?).await?
            }
        };
        let (parts, body) = answer.into_parts();
        ensure!(parts.status.is_success(), "{path}: {}", parts.status);
        Ok(body)
    }
}

pub(crate) struct Connection {
    endpoint: Endpoint,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Connection {
    /// The whole answer, which must be a good one.
    pub(crate) async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        self.ask_as(method, path, JSON, body).await
    }

    /// The whole answer to a merge patch, which must be a good one.
    pub(crate) async fn patch(&mut self, path: &str, body: Bytes) -> Result<Bytes> {
        let content_type = "application/merge-patch+json";
        self.ask_as(Method::PATCH, path, content_type, body).await
    }

    async fn ask_as(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Bytes> {
        let (status, bytes) = self.answer(method, path, content_type, body).await?;
        ensure!(
            status.is_success(),
            "{path}: {status} {}",
            String::from_utf8_lossy(&bytes)
        );
        Ok(bytes)
    }

    /// What is said to an object that is to be made, be it yes or no.
    pub(crate) async fn post(&mut self, path: &str, body: Bytes) -> Result<(StatusCode, Bytes)> {
        self.answer(Method::POST, path, JSON, body).await
    }

    async fn answer(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes)> {
        let (status, body) = self.send(method, path, content_type, body).await?;
        Ok((status, body.collect().await?.to_bytes()))
    }

    /// How long the answer is, without keeping it.
    pub(crate) async fn measure(&mut self, path: &str) -> Result<usize> {
        let (status, mut body) = self.send(Method::GET, path, JSON, Bytes::new()).await?;
        ensure!(status.is_success(), "{path}: {status}");
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Incoming)> {
        let request = self
            .endpoint
            .request(Http::One, method, path, content_type, body)?;
        self.sender.ready().await.context("the connection ended")?;
        let (parts, body) = self.sender.send_request(request).await?.into_parts();
        Ok((parts.status, body))
    }
}
