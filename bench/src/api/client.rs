//! A connection over TLS that stays open, and does as little as it can: the machine is for the server.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The token that all servers here are told to know.
pub(super) const TOKEN: &str = "benchmark";

/// Where a server is and whom to trust.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) port: u16,
    tls: Arc<ClientConfig>,
}

impl Endpoint {
    pub(super) fn new(port: u16, trusted_pem: &[u8]) -> Result<Self> {
        let mut trusted = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(trusted_pem) {
            // A server's own certificate may stand there too, which is no authority.
            let _ = trusted.add(certificate?);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        Ok(Self {
            port,
            tls: Arc::new(tls),
        })
    }

    pub(super) async fn connect(&self) -> Result<Connection> {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = TlsConnector::from(self.tls.clone())
            .connect(name, socket)
            .await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender })
    }
}

pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// The whole answer, which must be a good one.
    pub(super) async fn ask(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let (status, body) = self.send(method, path, body).await?;
        let bytes = body.collect().await?.to_bytes();
        ensure!(
            status.is_success(),
            "{path}: {status} {}",
            String::from_utf8_lossy(&bytes)
        );
        Ok(bytes)
    }

    /// How long the answer is, without keeping it.
    pub(super) async fn measure(&mut self, path: &str) -> Result<usize> {
        let (status, mut body) = self.send(Method::GET, path, Bytes::new()).await?;
        ensure!(status.is_success(), "{path}: {status}");
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }

    /// The status, and a body that may have no end.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Incoming)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        self.sender.ready().await.context("the connection ended")?;
        let (parts, body) = self.sender.send_request(request).await?.into_parts();
        Ok((parts.status, body))
    }
}
