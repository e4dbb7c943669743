//! Minimal HTTP client over TLS for the load generators, so that most of the CPU is left to the server.

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

/// Bearer token in the token file of every server that is started here.
pub(crate) const TOKEN: &str = "benchmark";

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// HTTP/2 flow-control window of a watch: the protocol's initial value.
const STREAM_WINDOW_BYTES: u32 = 65_535;

/// Receive buffer of a stalled client: as small as the kernel allows.
const STALLED_RECEIVE_BYTES: u32 = 4096;

/// HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HttpVersion {
    #[value(name = "1.1")]
    One,
    #[value(name = "2")]
    Two,
}

impl HttpVersion {
    /// Name in command-line arguments.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            HttpVersion::One => "1.1",
            HttpVersion::Two => "2",
        }
    }
}

/// Address, token and trusted CA of a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerEndpoint {
    host: Arc<str>,
    port: u16,
    token: Arc<str>,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
}

impl ServerEndpoint {
    /// Server on this machine that accepts [`TOKEN`].
    pub(crate) fn local(port: u16, trusted_pem: &[u8]) -> Result<Self> {
        Self::new("127.0.0.1", port, TOKEN, trusted_pem)
    }

    pub(crate) fn new(host: &str, port: u16, token: &str, trusted_pem: &[u8]) -> Result<Self> {
        let mut trusted = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(trusted_pem) {
            // The file may also contain the server certificate, which is not a CA.
            let _ = trusted.add(certificate?);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        // Each connection simulates a separate client: no TLS session resumption.
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

    /// HTTP/1.1 connection for sequential requests.
    pub(crate) async fn connect(&self) -> Result<ApiConnection> {
        let socket = TcpStream::connect((&*self.host, self.port)).await?;
        let stream = self.secure(socket, &self.http1).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let endpoint = self.clone();
        Ok(ApiConnection { endpoint, sender })
    }

    /// Watch on its own connection.
    pub(crate) async fn watch(&self, path: &str, http: HttpVersion) -> Result<Incoming> {
        self.connect_to_watch(http).await?.watch(path).await
    }

    /// Connection for consecutive watches.
    pub(crate) async fn connect_to_watch(&self, http: HttpVersion) -> Result<WatchConnection> {
        let socket = TcpStream::connect((&*self.host, self.port)).await?;
        self.watch_on(socket, http).await
    }

    /// Watch with a tiny receive buffer: the server is soon blocked if the client does not read.
    pub(crate) async fn stalled_watch(&self, path: &str, http: HttpVersion) -> Result<Incoming> {
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

    async fn watch_on(&self, socket: TcpStream, http: HttpVersion) -> Result<WatchConnection> {
        let sender = match http {
            HttpVersion::One => {
                let stream = TokioIo::new(self.secure(socket, &self.http1).await?);
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                HttpSender::One(sender)
            }
            HttpVersion::Two => {
                let stream = TokioIo::new(self.secure(socket, &self.http2).await?);
                let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .initial_stream_window_size(STREAM_WINDOW_BYTES)
                    .initial_connection_window_size(STREAM_WINDOW_BYTES)
                    .handshake(stream)
                    .await?;
                tokio::spawn(connection);
                HttpSender::Two(sender)
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
        http: HttpVersion,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>> {
        let (host, port) = (&self.host, self.port);
        let request = match http {
            HttpVersion::One => Request::builder().uri(path).header("host", &**host),
            HttpVersion::Two => Request::builder().uri(format!("https://{host}:{port}{path}")),
        };
        let request = request
            .method(method)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", content_type)
            .body(Full::new(body))?;
        Ok(request)
    }
}

/// A request of a load.
pub(crate) struct ApiRequest {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Bytes,
}

impl ApiRequest {
    pub(crate) fn get(path: String) -> Self {
        Self::new(Method::GET, path, JSON, Bytes::new())
    }

    pub(crate) fn post(path: String, body: Bytes) -> Self {
        Self::new(Method::POST, path, JSON, body)
    }

    pub(crate) fn put(path: String, body: Bytes) -> Self {
        Self::new(Method::PUT, path, JSON, body)
    }

    pub(crate) fn merge_patch(path: String, body: Bytes) -> Self {
        Self::new(Method::PATCH, path, MERGE_PATCH, body)
    }

    pub(crate) fn delete(path: String) -> Self {
        Self::new(Method::DELETE, path, JSON, Bytes::new())
    }

    fn new(method: Method, path: String, content_type: &'static str, body: Bytes) -> Self {
        Self {
            method,
            path,
            content_type,
            body,
        }
    }
}

/// Connection that carries one watch at a time.
pub(crate) struct WatchConnection {
    endpoint: ServerEndpoint,
    sender: HttpSender,
}

enum HttpSender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl WatchConnection {
    /// Starts a watch; the previous one must have ended.
    pub(crate) async fn watch(&mut self, path: &str) -> Result<Incoming> {
        let request = |http| {
            self.endpoint
                .request(http, Method::GET, path, JSON, Bytes::new())
        };
        let response = match &mut self.sender {
            HttpSender::One(sender) => {
                sender
                    .ready()
                    .await
                    .context("the server closed the connection")?;
                sender.send_request(request(HttpVersion::One)?).await?
            }
            HttpSender::Two(sender) => {
                sender
                    .ready()
                    .await
                    .context("the server closed the connection")?;
                sender.send_request(request(HttpVersion::Two)?).await?
            }
        };
        let (parts, body) = response.into_parts();
        ensure!(parts.status.is_success(), "{path}: {}", parts.status);
        Ok(body)
    }
}

pub(crate) struct ApiConnection {
    endpoint: ServerEndpoint,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl ApiConnection {
    /// Sends a request and returns the body; an error unless the status is a success.
    pub(crate) async fn execute(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes> {
        self.execute_as(method, path, JSON, body).await
    }

    /// Sends a merge patch and returns the body; an error unless the status is a success.
    pub(crate) async fn patch(&mut self, path: &str, body: Bytes) -> Result<Bytes> {
        self.execute_as(Method::PATCH, path, MERGE_PATCH, body)
            .await
    }

    /// Sends a request of a load and returns the body; an error unless the status is a success.
    pub(crate) async fn send_request(&mut self, request: ApiRequest) -> Result<Bytes> {
        let ApiRequest {
            method,
            path,
            content_type,
            body,
        } = request;
        self.execute_as(method, &path, content_type, body).await
    }

    async fn execute_as(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Bytes> {
        let (status, bytes) = self.send_and_read(method, path, content_type, body).await?;
        ensure!(
            status.is_success(),
            "{path}: {status} {}",
            String::from_utf8_lossy(&bytes)
        );
        Ok(bytes)
    }

    /// Sends a create and returns status and body, whatever the status.
    pub(crate) async fn post(&mut self, path: &str, body: Bytes) -> Result<(StatusCode, Bytes)> {
        self.send_and_read(Method::POST, path, JSON, body).await
    }

    async fn send_and_read(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes)> {
        let (status, body) = self.send(method, path, content_type, body).await?;
        Ok((status, body.collect().await?.to_bytes()))
    }

    /// Length of the response body, which is read and discarded.
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
            .request(HttpVersion::One, method, path, content_type, body)?;
        self.sender
            .ready()
            .await
            .context("the server closed the connection")?;
        let (parts, body) = self.sender.send_request(request).await?.into_parts();
        Ok((parts.status, body))
    }
}
