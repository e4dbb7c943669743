//! A webhook server over TLS. Tests set its responses by path, and read the received reviews.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// The reaction to a review.
pub(crate) enum WebhookResponse {
    /// An AdmissionReview with this response; the uid is filled in.
    Respond(Value),
    /// A raw response of the test.
    Send {
        code: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    Hang,
    /// Closes the connection without a response.
    Reset,
    /// Waits first.
    After(Duration, Box<WebhookResponse>),
}

pub(crate) fn allow() -> WebhookResponse {
    WebhookResponse::Respond(json!({"allowed": true}))
}

pub(crate) fn deny(message: &str) -> WebhookResponse {
    WebhookResponse::Respond(json!({"allowed": false, "status": {"message": message}}))
}

/// Allows a write and changes it with a JSON patch.
pub(crate) fn patch(operations: &Value) -> WebhookResponse {
    let patch = STANDARD.encode(operations.to_string());
    WebhookResponse::Respond(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// Responds with 200 and a body that need not be a review.
pub(crate) fn respond_with(body: impl ToString) -> WebhookResponse {
    WebhookResponse::Send {
        code: 200,
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.to_string(),
    }
}

/// A review received for a request of the test.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedReview {
    pub(crate) path: String,
    pub(crate) query: String,
    /// The `request` of the review.
    pub(crate) request: Value,
    pub(crate) review: Value,
    pub(crate) version: Version,
}

type ReviewHandler = Arc<dyn Fn(&Value) -> WebhookResponse + Send + Sync>;

#[derive(Default)]
struct WebhookServerState {
    scripts: Mutex<HashMap<String, ReviewHandler>>,
    received: Mutex<Vec<ReceivedReview>>,
    connections: AtomicUsize,
    acceptor: Mutex<Option<TlsAcceptor>>,
    ending: Notify,
}

/// The authority that signs the certificates of a webhook server.
pub(crate) struct TestCertificateAuthority(CertifiedIssuer<'static, KeyPair>);

impl TestCertificateAuthority {
    pub(crate) fn new() -> TestCertificateAuthority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        TestCertificateAuthority(
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
        )
    }

    /// The CA bundle for configurations.
    pub(crate) fn bundle(&self) -> String {
        STANDARD.encode(self.0.pem())
    }

    fn acceptor(
        &self,
        protocols: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> TlsAcceptor {
        let names = ["localhost", "127.0.0.1", "hook.default.svc"];
        let mut params = CertificateParams::new(names.map(String::from)).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|&name| name.into()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// The webhook server; stopped on drop.
pub(crate) struct WebhookServer {
    pub(crate) address: SocketAddr,
    pub(crate) authority: TestCertificateAuthority,
    state: Arc<WebhookServerState>,
    accepting: AbortHandle,
}

impl WebhookServer {
    pub(crate) async fn start() -> WebhookServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(WebhookServerState::default());
        let accepting = tokio::spawn(accept(listener, state.clone()));
        let webhook = WebhookServer {
            address,
            authority: TestCertificateAuthority::new(),
            state,
            accepting: accepting.abort_handle(),
        };
        webhook.use_certificate(&webhook.authority, &["h2", "http/1.1"], |_| {});
        webhook
    }

    /// Sets the certificate for new connections: issued by `authority`, after `change`.
    pub(crate) fn use_certificate(
        &self,
        authority: &TestCertificateAuthority,
        protocols: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) {
        *self.state.acceptor.lock().unwrap() = Some(authority.acceptor(protocols, change));
    }

    /// Sets the response for a path. Other paths allow everything.
    pub(crate) fn on(
        &self,
        path: &str,
        script: impl Fn(&Value) -> WebhookResponse + Send + Sync + 'static,
    ) {
        let mut scripts = self.state.scripts.lock().unwrap();
        scripts.insert(path.to_owned(), Arc::new(script));
    }

    /// The reviews received at a path, in order.
    pub(crate) fn received(&self, path: &str) -> Vec<ReceivedReview> {
        let received = self.state.received.lock().unwrap();
        received
            .iter()
            .filter(|received| received.path == path)
            .cloned()
            .collect()
    }

    /// The paths of all received reviews, in order.
    pub(crate) fn received_paths(&self) -> Vec<String> {
        let received = self.state.received.lock().unwrap();
        received
            .iter()
            .map(|received| received.path.clone())
            .collect()
    }

    pub(crate) fn clear_received(&self) {
        self.state.received.lock().unwrap().clear();
    }

    /// The number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Closes all open connections.
    pub(crate) fn close_connections(&self) {
        self.state.ending.notify_waiters();
    }

    /// The `clientConfig` for a path.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        let url = format!("https://{}{path}", self.address);
        json!({"url": url, "caBundle": self.authority.bundle()})
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<WebhookServerState>) {
    // The connections close with the server.
    let mut connections = JoinSet::new();
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        state.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve(connection, state.clone()));
    }
}

async fn serve(connection: TcpStream, state: Arc<WebhookServerState>) {
    let acceptor = state.acceptor.lock().unwrap().clone().unwrap();
    let Ok(stream) = acceptor.accept(connection).await else {
        return;
    };
    let of_requests = state.clone();
    let service = service_fn(move |request| handle_review(request, of_requests.clone()));
    let builder = auto::Builder::new(TokioExecutor::new());
    tokio::select! {
        _ = builder.serve_connection(TokioIo::new(stream), service) => {}
        () = state.ending.notified() => {}
    }
}

async fn handle_review(
    request: Request<Incoming>,
    state: Arc<WebhookServerState>,
) -> Result<Response<Full<Bytes>>, &'static str> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "no request")?.to_bytes();
    let review: Value = serde_json::from_slice(&body).map_err(|_| "no review")?;
    let path = head.uri.path().to_owned();
    let script = state.scripts.lock().unwrap().get(&path).cloned();
    let mut act = script.map_or_else(allow, |script| script(&review["request"]));
    // Writes of controllers are not recorded.
    if review["request"]["userInfo"]["username"] == "kubernetes-admin" {
        state.received.lock().unwrap().push(ReceivedReview {
            path,
            query: head.uri.query().unwrap_or_default().to_owned(),
            request: review["request"].clone(),
            version: head.version,
            review: review.clone(),
        });
    }
    while let WebhookResponse::After(pause, then) = act {
        tokio::time::sleep(pause).await;
        act = *then;
    }
    match act {
        WebhookResponse::Respond(mut response) => {
            response["uid"] = review["request"]["uid"].clone();
            let review = json!({
                "apiVersion": review["apiVersion"],
                "kind": review["kind"],
                "response": response,
            });
            Ok(Response::new(Full::from(review.to_string())))
        }
        WebhookResponse::Send {
            code,
            headers,
            body,
        } => {
            let mut response = Response::builder().status(code);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            Ok(response.body(Full::from(body)).unwrap())
        }
        WebhookResponse::Hang => std::future::pending().await,
        WebhookResponse::Reset | WebhookResponse::After(..) => Err("on purpose"),
    }
}
