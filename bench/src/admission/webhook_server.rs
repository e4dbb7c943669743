//! Validating webhook server in its own process; it allows every object except those named `probe`.

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::client::{HttpVersion, ServerEndpoint};

/// Name of the object that is rejected, to detect whether the webhook is called.
pub(super) const REJECTED_NAME: &str = "probe";

#[derive(clap::Args)]
pub(crate) struct WebhookServerArguments {
    /// Highest HTTP version that the server offers.
    #[arg(long)]
    http: HttpVersion,
}

/// First line on the server's standard output, once it listens.
#[derive(Serialize, Deserialize)]
struct WebhookServerIntroduction {
    port: u16,
    certificate: String,
}

/// Connections and calls that the server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct WebhookCallCounts {
    pub(super) connections: usize,
    pub(super) calls: usize,
}

/// Running webhook server; killed on drop.
pub(super) struct WebhookServerProcess {
    child: Child,
    pub(super) http: HttpVersion,
    endpoint: ServerEndpoint,
    pub(super) url: String,
    /// In PEM.
    pub(super) certificate: String,
}

impl WebhookServerProcess {
    pub(super) fn start(http: HttpVersion) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["webhook", "--http", http.as_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start the webhook server")?;
        let output = child
            .stdout
            .take()
            .context("standard output of the webhook server is not piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let WebhookServerIntroduction { port, certificate } = serde_json::from_str(&line)
            .context("failed to parse the address printed by the webhook server")?;
        Ok(Self {
            child,
            http,
            endpoint: ServerEndpoint::local(port, certificate.as_bytes())?,
            url: format!("https://127.0.0.1:{port}/validate"),
            certificate,
        })
    }

    /// Reads the counts; the connection used for that is not counted.
    pub(super) async fn counts(&self) -> Result<WebhookCallCounts> {
        let mut connection = self.endpoint.connect().await?;
        let counts = connection.execute(Method::GET, "/", Bytes::new()).await?;
        Ok(serde_json::from_slice(&counts)?)
    }
}

impl Drop for WebhookServerProcess {
    fn drop(&mut self) {
        // The process has no state worth a clean shutdown.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct WebhookCallCounters {
    connections: AtomicUsize,
    calls: AtomicUsize,
}

/// Serves until the process is killed.
pub(crate) async fn serve(arguments: WebhookServerArguments) -> Result<()> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()])?.self_signed(&key)?;
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    // The client that reads the counts uses HTTP/1.1 without ALPN.
    tls.alpn_protocols = match arguments.http {
        HttpVersion::One => vec![b"http/1.1".to_vec()],
        HttpVersion::Two => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let introduction = WebhookServerIntroduction {
        port: listener.local_addr()?.port(),
        certificate: certificate.pem(),
    };
    println!("{}", serde_json::to_string(&introduction)?);
    let counters = Arc::new(WebhookCallCounters::default());
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(talk(acceptor.clone(), socket, counters.clone()));
    }
}

/// Serves one connection. Errors are ignored here: the client reports them.
async fn talk(acceptor: TlsAcceptor, socket: TcpStream, counters: Arc<WebhookCallCounters>) {
    let _ = socket.set_nodelay(true);
    let Ok(stream) = acceptor.accept(socket).await else {
        return;
    };
    counters.connections.fetch_add(1, Ordering::Relaxed);
    let service = service_fn(move |request| answer(request, counters.clone()));
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    request: Request<Incoming>,
    counters: Arc<WebhookCallCounters>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = match *request.method() {
        Method::GET => {
            counters.connections.fetch_sub(1, Ordering::Relaxed);
            let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
            json!(WebhookCallCounts {
                connections: read(&counters.connections),
                calls: read(&counters.calls),
            })
            .to_string()
        }
        _ => {
            counters.calls.fetch_add(1, Ordering::Relaxed);
            let body = request.into_body().collect().await;
            // An unreadable request gets an empty body, which the client rejects.
            body.map_or(String::new(), |body| judge(&body.to_bytes()))
        }
    };
    Ok(Response::new(answer.into()))
}

#[derive(Deserialize)]
struct AdmissionReviewRequest {
    request: ReviewedObject,
}

#[derive(Deserialize)]
struct ReviewedObject {
    uid: String,
    name: String,
}

fn judge(review: &[u8]) -> String {
    let Ok(AdmissionReviewRequest { request }) = serde_json::from_slice(review) else {
        return String::new();
    };
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request.uid, "allowed": request.name != REJECTED_NAME},
    })
    .to_string()
}
