//! A webhook server over TLS. Tests say what it does with a path, and ask what it was asked.

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

/// What is done with one review.
pub(crate) enum Act {
    /// An AdmissionReview with this as its response; the uid is filled in.
    Respond(Value),
    /// Whatever the test says, to the byte.
    Send {
        code: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    Hang,
    /// The connection ends without an answer.
    Reset,
    /// First nothing for a while.
    After(Duration, Box<Act>),
}

pub(crate) fn allow() -> Act {
    Act::Respond(json!({"allowed": true}))
}

pub(crate) fn deny(message: &str) -> Act {
    Act::Respond(json!({"allowed": false, "status": {"message": message}}))
}

/// Allows a write after it was changed by a JSON patch.
pub(crate) fn patch(operations: &Value) -> Act {
    let patch = STANDARD.encode(operations.to_string());
    Act::Respond(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// Answers with success and a body that need not be a review.
pub(crate) fn say(body: impl ToString) -> Act {
    Act::Send {
        code: 200,
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.to_string(),
    }
}

/// What the server was asked about a request of the test.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) query: String,
    /// The `request` of the review.
    pub(crate) request: Value,
    pub(crate) review: Value,
    pub(crate) version: Version,
}

type Script = Arc<dyn Fn(&Value) -> Act + Send + Sync>;

#[derive(Default)]
struct State {
    scripts: Mutex<HashMap<String, Script>>,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    acceptor: Mutex<Option<TlsAcceptor>>,
    ending: Notify,
}

/// Signs the certificates of a webhook server.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// As configurations have it.
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

/// The server; it ends with this value.
pub(crate) struct Webhook {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Authority,
    state: Arc<State>,
    accepting: AbortHandle,
}

impl Webhook {
    pub(crate) async fn start() -> Webhook {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let accepting = tokio::spawn(accept(listener, state.clone()));
        let webhook = Webhook {
            address,
            authority: Authority::new(),
            state,
            accepting: accepting.abort_handle(),
        };
        webhook.show(&webhook.authority, &["h2", "http/1.1"], |_| {});
        webhook
    }

    /// What connections made from now on are shown: a certificate of `authority`, after `change`.
    pub(crate) fn show(
        &self,
        authority: &Authority,
        protocols: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) {
        *self.state.acceptor.lock().unwrap() = Some(authority.acceptor(protocols, change));
    }

    /// What is done from now on with what is asked at a path. Paths that nobody spoke of allow everything.
    pub(crate) fn on(&self, path: &str, script: impl Fn(&Value) -> Act + Send + Sync + 'static) {
        let mut scripts = self.state.scripts.lock().unwrap();
        scripts.insert(path.to_owned(), Arc::new(script));
    }

    /// What was asked at a path, in order.
    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        let asked = self.state.asked.lock().unwrap();
        asked
            .iter()
            .filter(|asked| asked.path == path)
            .cloned()
            .collect()
    }

    /// The paths of all that was asked, in order.
    pub(crate) fn order(&self) -> Vec<String> {
        let asked = self.state.asked.lock().unwrap();
        asked.iter().map(|asked| asked.path.clone()).collect()
    }

    pub(crate) fn forget(&self) {
        self.state.asked.lock().unwrap().clear();
    }

    /// How many connections there were so far.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Ends all connections that stand.
    pub(crate) fn end_connections(&self) {
        self.state.ending.notify_waiters();
    }

    /// The `clientConfig` by which a webhook is called at a path.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        let url = format!("https://{}{path}", self.address);
        json!({"url": url, "caBundle": self.authority.bundle()})
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    // The connections end with the server.
    let mut connections = JoinSet::new();
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        state.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve(connection, state.clone()));
    }
}

async fn serve(connection: TcpStream, state: Arc<State>) {
    let acceptor = state.acceptor.lock().unwrap().clone().unwrap();
    let Ok(stream) = acceptor.accept(connection).await else {
        return;
    };
    let of_requests = state.clone();
    let service = service_fn(move |request| answer(request, of_requests.clone()));
    let builder = auto::Builder::new(TokioExecutor::new());
    tokio::select! {
        _ = builder.serve_connection(TokioIo::new(stream), service) => {}
        () = state.ending.notified() => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<Full<Bytes>>, &'static str> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "no request")?.to_bytes();
    let review: Value = serde_json::from_slice(&body).map_err(|_| "no review")?;
    let path = head.uri.path().to_owned();
    let script = state.scripts.lock().unwrap().get(&path).cloned();
    let mut act = script.map_or_else(allow, |script| script(&review["request"]));
    // What controllers write goes on all the time, and no test is about it.
    if review["request"]["userInfo"]["username"] == "kubernetes-admin" {
        state.asked.lock().unwrap().push(Asked {
            path,
            query: head.uri.query().unwrap_or_default().to_owned(),
            request: review["request"].clone(),
            version: head.version,
            review: review.clone(),
        });
    }
    while let Act::After(pause, then) = act {
        tokio::time::sleep(pause).await;
        act = *then;
    }
    match act {
        Act::Respond(mut response) => {
            response["uid"] = review["request"]["uid"].clone();
            let answer = json!({
                "apiVersion": review["apiVersion"],
                "kind": review["kind"],
                "response": response,
            });
            Ok(Response::new(Full::from(answer.to_string())))
        }
        Act::Send {
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
        Act::Hang => std::future::pending().await,
        Act::Reset | Act::After(..) => Err("on purpose"),
    }
}
