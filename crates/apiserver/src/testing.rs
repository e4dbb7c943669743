//! A whole server in a test, without sockets: requests are calls.

mod others;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use rhumb_api::{Gates, Object};
use rhumb_auth::User;
use rhumb_auth::token::SigningKey;
use rhumb_meta::{Clock, SystemClock};
use rhumb_store::embedded::{self, Embedded};
use rhumb_store::{Expect, Transaction};
use serde_json::{Value, json};
use tokio::task::coop;

use crate::admission::Chain;
use crate::request::{Query, RequestInfo};
use crate::resources::Call;
use crate::resources::allocation::ServiceRanges;
use crate::start::Options;
use crate::{Api, http as ours};

pub(crate) use others::Others;

pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

/// Work that leaves nothing of its task's budget to whatever else the task waits for.
pub(crate) async fn never_resting() {
    loop {
        tokio::task::yield_now().await;
        while coop::has_budget_remaining() {
            coop::consume_budget().await;
        }
    }
}

/// What clients call, and what it stands on.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) api: Arc<Api>,
}

/// What a server of a test has that others do not.
pub(crate) struct Setup {
    pub(crate) services: &'static str,
    pub(crate) node_ports: &'static str,
    pub(crate) chain: Chain,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            services: "10.0.0.0/24",
            node_ports: "30000-32767",
            chain: Chain::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

impl Server {
    pub(crate) async fn open(directory: &Path, setup: Setup) -> Server {
        Server::on(Arc::new(Server::store(directory).await), setup).await
    }

    pub(crate) async fn store(directory: &Path) -> Embedded {
        let path = directory.join("store");
        // A server that was closed a moment ago may still hold the lock.
        for _ in 0..500 {
            match Embedded::open(&path, embedded::Options::default()).await {
                Ok(store) => return store,
                Err(embedded::FileError::InUse { .. }) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the store stays in use");
    }

    pub(crate) async fn on(store: Arc<dyn rhumb_store::Store>, setup: Setup) -> Server {
        let key = rcgen::KeyPair::generate().expect("a key");
        let api = Api::start(Options {
            store,
            clock: setup.clock,
            gates: Gates::default(),
            tokens: None,
            service_account_key: SigningKey::from_pkcs8(&key.serialize_der()).expect("a key"),
            issuer: "https://test".into(),
            public_address: "127.0.0.1:6443".into(),
            admission: setup.chain,
            services: ServiceRanges::parse(setup.services, setup.node_ports).expect("ranges"),
            indexes: crate::start::Indexes::default(),
            advertised: "192.0.2.7:6443".parse().ok(),
            event_ttl: Duration::from_secs(3600),
            policy_status: true,
            quota_status: true,
        })
        .await
        .expect("a server");
        let server = Server { api };
        server.make_default_account().await;
        server
    }

    /// Pods need the account that a controller makes where there is one.
    async fn make_default_account(&self) {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
        });
        let path = "/api/v1/namespaces/default/serviceaccounts";
        let (code, answer) = self.create(path, account).await;
        assert!(matches!(code, 201 | 409), "{answer}");
    }

    pub(crate) async fn close(self) {
        self.api.hub.close().await;
    }

    /// Asks as someone who may do anything, and gives the code and the body of the answer.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.ask_as(&User::server(), method, path, body).await
    }

    /// Whether the user may ask at all is not looked at.
    pub(crate) async fn ask_as(
        &self,
        user: &User,
        method: Method,
        path: &str,
        body: Value,
    ) -> (u16, Value) {
        let content_type = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let query = Query::parse(query).expect("a query");
        let info = RequestInfo::new(&method, path, &query);
        let target = info.target.as_ref().expect("a resource");
        let registry = &self.api.registry;
        let resource = registry
            .find(&target.group, &target.resource)
            .unwrap_or_else(|| panic!("no resource at {path}"));
        let subresource = target.subresource.as_deref().map(|name| {
            let mut all = resource.kind.subresources.iter();
            all.find(|subresource| subresource.name == name)
                .unwrap_or_else(|| panic!("no subresource at {path}"))
        });
        let mut headers = HeaderMap::new();
        headers.insert(
            http::header::CONTENT_TYPE,
            HeaderValue::from_static(content_type),
        );
        let call = Call {
            api: &self.api,
            resource,
            version: resource.version(&target.version).expect("a version"),
            subresource,
            target,
            verb: info.verb,
            query: &query,
            headers: &headers,
            body: if body.is_null() {
                bytes::Bytes::new()
            } else {
                body.to_string().into()
            },
            user,
            now: self.api.clock.wall(),
            warnings: Mutex::new(Vec::new()),
            annotations: None,
            is_own: false,
            place: None,
            recorder: None,
        };
        let reply = match call.answer().await {
            Ok(Some(reply)) => reply,
            Ok(None) => ours::Reply::text(StatusCode::METHOD_NOT_ALLOWED, "{}"),
            Err(status) => ours::Reply::status(&status),
        };
        let bytes = reply.body.collect().await.expect("a body").to_bytes();
        let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        (reply.code.as_u16(), value)
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::POST, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, Value::Null).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        self.ask(Method::DELETE, path, Value::Null).await
    }

    /// Stores what another program might have stored, as it is.
    pub(crate) async fn plant(&self, key: &str, value: impl Into<bytes::Bytes>) {
        let put = Transaction::new().put(key, value, Expect::Any);
        let revision = self.api.store.commit(put).await.expect("a commit");
        self.api.seen(revision).await;
    }
}
