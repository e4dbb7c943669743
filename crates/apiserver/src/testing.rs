//! Test server: a complete API server without sockets. Requests are function calls that skip authentication and
//! authorization.

mod interfering_store;

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use rhumb_api::FeatureGates;
use rhumb_auth::User;
use rhumb_auth::token::SigningKey;
use rhumb_meta::{Clock, SystemClock};
use rhumb_store::embedded::{self, EmbeddedStore};
use rhumb_store::{ExpectedRevision, Transaction};
use serde_json::{Value, json};

use crate::start::ApiServerOptions;
use rhumb_admission_plugins::AdmissionPlugins;
use rhumb_handlers::request::{QueryParameters, RequestInfo};
use rhumb_handlers::resources::ResourceRequest;
use rhumb_handlers::{ServerState, http as ours};
use rhumb_registry::service_allocation::ServiceAllocationRanges;
use rhumb_registry::{RequestContext, RequestOptions, RequestOrigin};

pub(crate) use interfering_store::InterferingStore;
pub(crate) use rhumb_registry::testing::object;

/// A running API server with helpers to send requests to it.
#[derive(Debug, Clone)]
pub(crate) struct TestServer {
    pub(crate) state: Arc<ServerState>,
}

/// Options of a test server.
pub(crate) struct TestServerOptions {
    pub(crate) services: &'static str,
    pub(crate) node_ports: &'static str,
    pub(crate) chain: AdmissionPlugins,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) compaction_interval: Duration,
}

impl Default for TestServerOptions {
    fn default() -> Self {
        TestServerOptions {
            services: "10.0.0.0/24",
            node_ports: "30000-32767",
            chain: AdmissionPlugins::default(),
            clock: Arc::new(SystemClock::new()),
            compaction_interval: crate::COMPACTION_INTERVAL,
        }
    }
}

impl TestServer {
    pub(crate) async fn open(directory: &Path, setup: TestServerOptions) -> TestServer {
        TestServer::with_store(Arc::new(TestServer::open_store(directory).await), setup).await
    }

    pub(crate) async fn open_store(directory: &Path) -> EmbeddedStore {
        let path = directory.join("store");
        // A server that was just closed may still hold the file lock.
        for _ in 0..500 {
            match EmbeddedStore::open(&path, embedded::EmbeddedOptions::default()).await {
                Ok(store) => return store,
                Err(embedded::DataDirectoryError::InUse { .. }) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        panic!("timed out waiting for the store's file lock");
    }

    pub(crate) async fn with_store(
        store: Arc<dyn rhumb_store::Store>,
        setup: TestServerOptions,
    ) -> TestServer {
        let key = rcgen::KeyPair::generate().expect("valid key");
        let state = crate::start::start(ApiServerOptions {
            store,
            clock: setup.clock,
            gates: FeatureGates::default(),
            tokens: None,
            service_account_key: SigningKey::from_pkcs8(&key.serialize_der()).expect("valid key"),
            issuer: "https://test".into(),
            public_address: "127.0.0.1:6443".into(),
            admission: setup.chain,
            services: ServiceAllocationRanges::parse(setup.services, setup.node_ports)
                .expect("valid service ranges"),
            indexes: crate::start::ListIndexConfig::default(),
            advertised: "192.0.2.7:6443".parse().ok(),
            event_ttl: Duration::from_secs(3600),
            compaction_interval: setup.compaction_interval,
            quota_status: true,
        })
        .await
        .expect("start API server");
        let server = TestServer { state };
        server.create_default_service_account().await;
        server
    }

    /// Creates the default service account, which pods need; the controller that would create it does not run here.
    async fn create_default_service_account(&self) {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"},
        });
        let path = "/api/v1/namespaces/default/serviceaccounts";
        let (code, response) = self.create(path, account).await;
        assert!(matches!(code, 201 | 409), "{response}");
    }

    pub(crate) async fn close(self) {
        self.state.registry.cache_manager.close().await;
    }

    /// Sends a request as the server's own user; returns status code and body of the response.
    pub(crate) async fn request(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.request_as(&User::server(), method, path, body).await
    }

    /// Sends a request as a user, without authorization.
    pub(crate) async fn request_as(
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
        let query = QueryParameters::parse(query).expect("valid query");
        let info = RequestInfo::new(&method, path, &query);
        let target = info.resource_path.as_ref().expect("path names a resource");
        let resources = self.state.registry.resources();
        let resource = resources
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
        let context = RequestContext {
            registry: &self.state.registry,
            resources: &resources,
            resource,
            version: resource.version(&target.version).expect("served version"),
            subresource,
            namespace: target.namespace.as_deref(),
            name: target.name.as_deref().unwrap_or_default(),
            verb: info.verb,
            options: RequestOptions::default(),
            user,
            now: self.state.registry.clock.wall(),
            origin: RequestOrigin::Client,
            warnings: Mutex::default(),
            audit_annotations: None,
            audits_bodies: false,
            in_flight_permit: None,
        };
        let request = ResourceRequest {
            state: &self.state,
            context,
            path: target,
            query: &query,
            headers: &headers,
            body: if body.is_null() {
                bytes::Bytes::new()
            } else {
                body.to_string().into()
            },
            audit_recorder: None,
        };
        let reply = match request.dispatch().await {
            Ok(Some(reply)) => reply,
            Ok(None) => ours::Reply::text(StatusCode::METHOD_NOT_ALLOWED, "{}"),
            Err(status) => ours::Reply::status(&status),
        };
        let bytes = reply.body.collect().await.expect("read body").to_bytes();
        let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        (reply.code.as_u16(), value)
    }

    pub(crate) async fn create(&self, path: &str, body: Value) -> (u16, Value) {
        self.request(Method::POST, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.request(Method::GET, path, Value::Null).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        self.request(Method::DELETE, path, Value::Null).await
    }

    /// Writes a raw value to the store, as another program might.
    pub(crate) async fn put_raw(&self, key: &str, value: impl Into<bytes::Bytes>) {
        let transaction = Transaction::new().put(key, value, ExpectedRevision::Any);
        let revision = self
            .state
            .registry
            .store
            .commit(transaction)
            .await
            .expect("commit succeeds");
        self.state.registry.await_applied(revision).await;
    }
}
