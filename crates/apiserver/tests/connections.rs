//! What a connection can take of the server, with limits that a test can wait for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_api::Gates;
use rhumb_apiserver::Api;
use rhumb_apiserver::server::{ConnectionLimits, InFlight, Server, Service};
use rhumb_apiserver::start::Options;
use rhumb_auth::authn::TokenFile;
use rhumb_auth::token::SigningKey;
use rhumb_meta::SystemClock;
use rhumb_store::embedded::{self, Embedded};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const TIMEOUT: Duration = Duration::from_millis(500);

struct Running {
    address: SocketAddr,
    client: Arc<rustls::ClientConfig>,
    stop: CancellationToken,
    _directory: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn start(limits: ConnectionLimits) -> Running {
    start_with(limits, InFlight::default()).await
}

async fn start_with(limits: ConnectionLimits, inflight: InFlight) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(
        &directory.path().join("store"),
        embedded::Options::default(),
    )
    .await
    .unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let api = Api::start(Options {
        store: Arc::new(store),
        clock: Arc::new(SystemClock::new()),
        gates: Gates::parse("").unwrap().0,
        tokens: Some(TokenFile::parse("secret,admin,1,system:masters").unwrap()),
        service_account_key: SigningKey::from_pkcs8(&key.serialize_der()).unwrap(),
        issuer: "https://issuer".to_owned(),
        public_address: "127.0.0.1:1".to_owned(),
        admission: rhumb_apiserver::admission::Chain::default(),
        services: rhumb_apiserver::resources::allocation::ServiceRanges::parse(
            "10.0.0.0/24",
            "30000-32767",
        )
        .unwrap(),
        indexes: rhumb_apiserver::start::Indexes::default(),
        advertised: None,
        event_ttl: Duration::from_secs(3600),
        policy_status: false,
        quota_status: false,
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
    let mut service = Service::new(api);
    service.inflight = inflight;
    let server = Server {
        listener,
        tls: Arc::new(tls),
        service: Arc::new(service),
        limits,
    };
    tokio::spawn(server.run(stop.clone(), Duration::from_secs(1)));
    Running {
        address,
        client: Arc::new(client),
        stop,
        _directory: directory,
    }
}

impl Running {
    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(self.client.clone())
            .connect(name, stream)
            .await
    }
}

/// Waits until the server closes a connection: soon after the limit, and not before it.
async fn closed_after_the_limit(stream: &mut (impl AsyncReadExt + Unpin), begun: Instant) {
    let mut rest = Vec::new();
    tokio::time::timeout(20 * TIMEOUT, stream.read_to_end(&mut rest))
        .await
        .expect("the connection is closed")
        .ok();
    assert!(begun.elapsed() >= TIMEOUT, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_slow_with_headers_or_the_handshake_is_cut_off() {
    let running = start(ConnectionLimits {
        header_timeout: TIMEOUT,
        handshake_timeout: TIMEOUT,
        ..ConnectionLimits::default()
    })
    .await;
    let begun = Instant::now();
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let mut slow = running.connect().await.unwrap();
    slow.write_all(b"GET /version HTTP/1.1\r\nhost: a\r\nx: ")
        .await
        .unwrap();
    closed_after_the_limit(&mut silent, begun).await;
    closed_after_the_limit(&mut slow, begun).await;
    // A trickle does not help either.
    let begun = Instant::now();
    let mut trickle = running.connect().await.unwrap();
    trickle
        .write_all(b"GET /version HTTP/1.1\r\n")
        .await
        .unwrap();
    while trickle.write_all(b"x").await.is_ok() && trickle.flush().await.is_ok() {
        assert!(begun.elapsed() < 20 * TIMEOUT, "the trickle goes on");
        tokio::time::sleep(TIMEOUT / 10).await;
    }
    assert!(begun.elapsed() >= TIMEOUT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_nobody_uses_is_closed_and_one_in_use_is_not() {
    let running = start(ConnectionLimits {
        idle_timeout: TIMEOUT,
        ..ConnectionLimits::default()
    })
    .await;
    let begun = Instant::now();
    let mut silent = running.connect().await.unwrap();
    let mut busy = running.connect().await.unwrap();
    // The body of this request is to come: it is under way.
    busy.write_all(b"POST /version HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n")
        .await
        .unwrap();
    closed_after_the_limit(&mut silent, begun).await;
    tokio::time::sleep(3 * TIMEOUT).await;
    busy.write_all(b"{\"a\": 12}").await.unwrap();
    let mut answer = [0; 12];
    busy.read_exact(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 "), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_closes_connections_that_nobody_uses() {
    let running = start(ConnectionLimits::default()).await;
    let mut unused = running.connect().await.unwrap();
    let mut used = running.connect().await.unwrap();
    used.write_all(b"GET /version HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 12];
    used.read_exact(&mut answer).await.unwrap();
    running.stop.cancel();
    // Long before anybody would find them idle.
    for connection in [&mut unused, &mut used] {
        let mut rest = Vec::new();
        let end = connection.read_to_end(&mut rest);
        let end = tokio::time::timeout(Duration::from_secs(10), end).await;
        let _ = end.expect("the connection is closed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_limited_and_places_are_given_back() {
    let running = start(ConnectionLimits {
        connections_max: 3,
        ..ConnectionLimits::default()
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(running.connect().await.unwrap());
    }
    assert!(running.connect().await.is_err(), "a fourth is refused");
    drop(held.pop());
    let begun = Instant::now();
    while running.connect().await.is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the place is lost"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_limited_as_long_as_they_last() {
    let inflight = InFlight::default().with_watches(1);
    let running = start_with(ConnectionLimits::default(), inflight).await;
    let watch = async || {
        let mut stream = running.connect().await.unwrap();
        let request = b"GET /api/v1/configmaps?watch=true HTTP/1.1\r\nhost: a\r\nauthorization: Bearer secret\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).await.unwrap();
        (String::from_utf8_lossy(&line).into_owned(), stream)
    };
    let (line, held) = watch().await;
    assert_eq!(line, "HTTP/1.1 200");
    for _ in 0..3 {
        assert_eq!(watch().await.0, "HTTP/1.1 429");
    }
    drop(held);
    let begun = Instant::now();
    while watch().await.0 != "HTTP/1.1 200" {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the place is lost"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
