//! A server on a loopback port, with one user: the bearer token `secret` is an administrator.

// Each test binary uses only a part of this module.
#![allow(dead_code, unreachable_pub)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_api::FeatureGates;
use rhumb_apiserver::ApiServerOptions;
use rhumb_auth::authn::TokenFile;
use rhumb_auth::token::SigningKey;
use rhumb_handlers::ServerState;
use rhumb_meta::SystemClock;
use rhumb_server::{ConnectionLimits, HttpService, HttpsServer, InFlightLimits};
use rhumb_store::embedded::{self, EmbeddedStore};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

pub struct RunningTestServer {
    pub address: SocketAddr,
    pub state: Arc<ServerState>,
    client: Arc<rustls::ClientConfig>,
    pub stop: CancellationToken,
    _directory: TempDir,
}

impl Drop for RunningTestServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub async fn start(limits: ConnectionLimits) -> RunningTestServer {
    start_with(limits, InFlightLimits::default()).await
}

pub async fn start_with(limits: ConnectionLimits, inflight: InFlightLimits) -> RunningTestServer {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(
        &directory.path().join("store"),
        embedded::EmbeddedOptions::default(),
    )
    .await
    .unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let api = rhumb_apiserver::start(ApiServerOptions {
        store: Arc::new(store),
        clock: Arc::new(SystemClock::new()),
        gates: FeatureGates::parse("").unwrap().0,
        tokens: Some(TokenFile::parse("secret,admin,1,system:masters").unwrap()),
        service_account_key: SigningKey::from_pkcs8(&key.serialize_der()).unwrap(),
        issuer: "https://issuer".to_owned(),
        public_address: "127.0.0.1:1".to_owned(),
        admission: rhumb_admission_plugins::AdmissionPlugins::default(),
        services: rhumb_registry::service_allocation::ServiceAllocationRanges::parse(
            "10.0.0.0/24",
            "30000-32767",
        )
        .unwrap(),
        indexes: rhumb_apiserver::ListIndexConfig::default(),
        advertised: None,
        event_ttl: Duration::from_secs(3600),
        compaction_interval: rhumb_apiserver::COMPACTION_INTERVAL,
        quota_status: true,
    })
    .await
    .unwrap();
    let names = vec!["localhost".to_owned()];
    let serving = rcgen::generate_simple_self_signed(names).unwrap();
    let certificate = serving.cert.der().clone();
    let serving_key = PrivatePkcs8KeyDer::from(serving.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(serving_key))
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let mut service = HttpService::new(Arc::clone(&api));
    service.inflight = inflight;
    let server = HttpsServer {
        listener,
        tls: Arc::new(tls),
        service: Arc::new(service),
        limits,
    };
    tokio::spawn(server.run(stop.clone(), Duration::from_secs(1)));
    RunningTestServer {
        address,
        state: api,
        client: Arc::new(client),
        stop,
        _directory: directory,
    }
}

impl RunningTestServer {
    pub async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(self.client.clone())
            .connect(name, stream)
            .await
    }
}
