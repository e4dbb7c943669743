//! A server per test, and a raw HTTP client.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::program::{FEW_CONTROLLERS, RhumbUpProcess, kubeconfig};

/// A token in the token file whose user has no additional permissions.
pub(crate) const NOBODY: &str = "nobody-token";

/// Credentials of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientCredentials {
    Admin,
    Token(&'static str),
    Anonymous,
}

/// A running server with its connection data.
pub(crate) struct TestServer {
    pub(crate) program: RhumbUpProcess,
    pub(crate) directory: Arc<TempDir>,
    pub(crate) address: SocketAddr,
    ca: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl TestServer {
    pub(crate) fn start(flags: &[&str]) -> TestServer {
        TestServer::start_in(Arc::new(tempfile::tempdir().unwrap()), flags)
    }

    pub(crate) fn start_in(directory: Arc<TempDir>, flags: &[&str]) -> TestServer {
        TestServer::start_program(directory, flags, |path, flags| {
            RhumbUpProcess::start(path, 0, flags)
        })
    }

    /// Starts a server with a limit on open files.
    pub(crate) fn start_with_open_files(limit: u32, flags: &[&str]) -> TestServer {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        TestServer::start_program(directory, flags, |path, flags| {
            RhumbUpProcess::start_with_open_files(limit, path, flags)
        })
    }

    fn start_program(
        directory: Arc<TempDir>,
        flags: &[&str],
        start: impl FnOnce(&Path, &[String]) -> RhumbUpProcess,
    ) -> TestServer {
        let tokens = directory.path().join("tokens.csv");
        std::fs::write(&tokens, format!("{NOBODY},nobody,1\n")).unwrap();
        let tokens = format!("--token-auth-file={}", tokens.display());
        let mut flags: Vec<String> = std::iter::once(tokens)
            .chain(flags.iter().map(|&flag| flag.to_owned()))
            .collect();
        if !flags.iter().any(|flag| flag.starts_with("--controllers")) {
            flags.push(FEW_CONTROLLERS.to_owned());
        }
        let program = start(directory.path(), &flags);
        let kubeconfig = std::fs::read_to_string(kubeconfig(directory.path())).unwrap();
        let field = |name: &str| {
            let start = kubeconfig.find(name).expect(name) + name.len();
            kubeconfig[start..]
                .lines()
                .next()
                .unwrap()
                .trim()
                .trim_matches('"')
                .to_owned()
        };
        let pem = |name: &str| STANDARD.decode(field(name)).unwrap();
        TestServer {
            address: SocketAddr::from(([127, 0, 0, 1], program.port)),
            ca: CertificateDer::from_pem_slice(&pem("certificate-authority-data:")).unwrap(),
            certificate: CertificateDer::from_pem_slice(&pem("client-certificate-data:")).unwrap(),
            key: PrivateKeyDer::from_pem_slice(&pem("client-key-data:")).unwrap(),
            program,
            directory,
        }
    }

    /// The exit status, if it exited in time.
    pub(crate) async fn ended_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < limit {
            if let Some(status) = self.program.process.try_wait().unwrap() {
                return Some(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.program.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes * 1024
    }

    /// A TLS connection without a request. Empty `protocol` means no ALPN.
    pub(crate) async fn tls(
        &self,
        who: ClientCredentials,
        protocol: &[u8],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.ca.clone()).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match who {
            ClientCredentials::Admin => builder
                .with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())
                .unwrap(),
            _ => builder.with_no_client_auth(),
        };
        if !protocol.is_empty() {
            config.alpn_protocols = vec![protocol.to_vec()];
        }
        let stream = TcpStream::connect(self.address).await?;
        // Like in clients, because a request takes more than one write.
        stream.set_nodelay(true).unwrap();
        let name = ServerName::from(self.address.ip());
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    pub(crate) async fn http1(&self, who: ClientCredentials) -> HttpTestClient {
        let stream = TokioIo::new(self.tls(who, b"http/1.1").await.unwrap());
        let (sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        HttpTestClient {
            who,
            sender: HttpSender::Http1(sender),
        }
    }

    pub(crate) async fn http2(&self, who: ClientCredentials) -> HttpTestClient {
        let stream = TokioIo::new(self.tls(who, b"h2").await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
        tokio::spawn(connection);
        HttpTestClient {
            who,
            sender: HttpSender::Http2(sender),
        }
    }

    /// Sends one request on a new connection.
    pub(crate) async fn send_request(
        &self,
        who: ClientCredentials,
        method: Method,
        path: &str,
        body: &str,
    ) -> HttpResponse {
        self.http1(who).await.send_request(method, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> HttpResponse {
        self.send_request(ClientCredentials::Admin, Method::GET, path, "")
            .await
    }

    pub(crate) async fn create_config_map(&self, name: &str) -> HttpResponse {
        let (admin, body) = (ClientCredentials::Admin, config_map(name));
        self.send_request(admin, Method::POST, CONFIG_MAPS, &body)
            .await
    }
}

pub(crate) struct HttpTestClient {
    who: ClientCredentials,
    sender: HttpSender,
}

enum HttpSender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl HttpTestClient {
    pub(crate) fn request(&self, method: Method, path: &str, body: &str) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).header("host", "rhumb");
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        if let ClientCredentials::Token(token) = self.who {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let uri = match self.sender {
            HttpSender::Http1(_) => path.to_owned(),
            HttpSender::Http2(_) => format!("https://rhumb{path}"),
        };
        request
            .uri(uri)
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap()
    }

    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        match &mut self.sender {
            HttpSender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            HttpSender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    pub(crate) async fn send_request(
        &mut self,
        method: Method,
        path: &str,
        body: &str,
    ) -> HttpResponse {
        let request = self.request(method, path, body);
        let response = self.send(request).await.expect("an answer");
        HttpResponse::read(response).await
    }
}

#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpResponse {
    pub(crate) async fn read(response: Response<Incoming>) -> HttpResponse {
        let (parts, body) = response.into_parts();
        let body = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        HttpResponse {
            code: parts.status,
            headers: parts.headers,
            body,
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(crate) fn config_map(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"a":"b"}}}}"#
    )
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
