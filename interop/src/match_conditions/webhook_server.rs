//! A webhook server that allows everything and records which webhooks are called.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The path of a webhook is `/round/index`.
pub(super) struct RecordingWebhookServer {
    port: u16,
    certificate_pem: String,
    recorded: Arc<Mutex<CalledWebhooks>>,
}

#[derive(Debug, Default)]
struct CalledWebhooks {
    round: usize,
    indexes: BTreeSet<usize>,
}

impl RecordingWebhookServer {
    pub(super) async fn start() -> Result<RecordingWebhookServer> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".into()])?.self_signed(&key)?;
        let private_key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private_key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = RecordingWebhookServer {
            port: listener.local_addr()?.port(),
            certificate_pem: certificate.pem(),
            recorded: Arc::default(),
        };
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(accept(listener, acceptor, server.recorded.clone()));
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// For `clientConfig.caBundle`.
    pub(super) fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.certificate_pem)
    }

    /// Only calls of this round are recorded from now on.
    pub(super) fn set_round(&self, round: usize) {
        let mut recorded = self.recorded.lock();
        recorded.round = round;
        recorded.indexes.clear();
    }

    pub(super) fn clear(&self) {
        self.recorded.lock().indexes.clear();
    }

    pub(super) fn called(&self) -> BTreeSet<usize> {
        self.recorded.lock().indexes.clone()
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    recorded: Arc<Mutex<CalledWebhooks>>,
) {
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, recorded) = (acceptor.clone(), recorded.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else {
                return;
            };
            let service = service_fn(move |request| respond(request, recorded.clone()));
            let connection = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            // An ended connection needs no handling: the server under test opens another.
            let _ = connection.await;
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    recorded: Arc<Mutex<CalledWebhooks>>,
) -> Result<Response<Full<Bytes>>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body)?;
    let user = review["request"]["userInfo"]["username"].as_str();
    // The server's own requests are not part of the comparison.
    if !user.unwrap_or_default().starts_with("system:") {
        let (round, index) = path
            .trim_start_matches('/')
            .split_once('/')
            .with_context(|| format!("path {path:?} is not /round/index"))?;
        let (round, index): (usize, usize) = (round.parse()?, index.parse()?);
        let mut recorded = recorded.lock();
        if recorded.round == round {
            recorded.indexes.insert(index);
        }
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.body(Full::from(review.to_string()))?)
}
