//! A webhook in a process of its own, which allows everything but what is called `probe`.

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

use crate::client::{Endpoint, Http};

/// What is refused, so that one can see whether the webhook is asked.
pub(super) const REFUSED: &str = "probe";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What it speaks at best.
    #[arg(long)]
    http: Http,
}

/// What the server says of itself when it has started.
#[derive(Serialize, Deserialize)]
struct Introduction {
    port: u16,
    certificate: String,
}

/// What the server was asked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) connections: usize,
    pub(super) calls: usize,
}

/// A webhook for the time of a benchmark.
pub(super) struct Process {
    child: Child,
    pub(super) http: Http,
    endpoint: Endpoint,
    pub(super) url: String,
    /// In PEM.
    pub(super) certificate: String,
}

impl Process {
    pub(super) fn start(http: Http) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["webhook", "--http", http.as_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the webhook")?;
        let output = child.stdout.take().context("the webhook has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let Introduction { port, certificate } =
            serde_json::from_str(&line).context("the webhook does not say where it is")?;
        Ok(Self {
            child,
            http,
            endpoint: Endpoint::local(port, certificate.as_bytes())?,
            url: format!("https://127.0.0.1:{port}/validate"),
            certificate,
        })
    }

    /// Itself is a connection, too, which is not counted.
    pub(super) async fn counts(&self) -> Result<Counts> {
        let mut connection = self.endpoint.connect().await?;
        let counts = connection.ask(Method::GET, "/", Bytes::new()).await?;
        Ok(serde_json::from_slice(&counts)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is ours alone and has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct Counters {
    connections: AtomicUsize,
    calls: AtomicUsize,
}

/// Answers until it is killed.
pub(crate) async fn serve(arguments: Arguments) -> Result<()> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()])?.self_signed(&key)?;
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    // Who asks for the counts speaks the older one, and names none.
    tls.alpn_protocols = match arguments.http {
        Http::One => vec![b"http/1.1".to_vec()],
        Http::Two => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let introduction = Introduction {
        port: listener.local_addr()?.port(),
        certificate: certificate.pem(),
    };
    println!("{}", serde_json::to_string(&introduction)?);
    let counters = Arc::new(Counters::default());
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(talk(acceptor.clone(), socket, counters.clone()));
    }
}

/// Whoever cannot be talked to will say so.
async fn talk(acceptor: TlsAcceptor, socket: TcpStream, counters: Arc<Counters>) {
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
    counters: Arc<Counters>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = match *request.method() {
        Method::GET => {
            counters.connections.fetch_sub(1, Ordering::Relaxed);
            let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
            json!(Counts {
                connections: read(&counters.connections),
                calls: read(&counters.calls),
            })
            .to_string()
        }
        _ => {
            counters.calls.fetch_add(1, Ordering::Relaxed);
            let body = request.into_body().collect().await;
            // What cannot be read is answered with what cannot be either.
            body.map_or(String::new(), |body| judge(&body.to_bytes()))
        }
    };
    Ok(Response::new(answer.into()))
}

#[derive(Deserialize)]
struct Review {
    request: Question,
}

#[derive(Deserialize)]
struct Question {
    uid: String,
    name: String,
}

fn judge(review: &[u8]) -> String {
    let Ok(Review { request }) = serde_json::from_slice(review) else {
        return String::new();
    };
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": request.uid, "allowed": request.name != REFUSED},
    })
    .to_string()
}
