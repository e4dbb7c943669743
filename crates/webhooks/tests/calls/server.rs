//! Fake webhook servers on the loopback interface, well-behaved and broken ones, with generated certificates.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The names and addresses in every server certificate.
pub(crate) const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "hook.ns.svc"];

/// A CA that signs server certificates.
pub(crate) struct TestCertificateAuthority(CertifiedIssuer<'static, KeyPair>);

/// A server certificate and its private key.
pub(crate) struct TestServerCertificate {
    pub(crate) pem: String,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl TestCertificateAuthority {
    pub(crate) fn new() -> TestCertificateAuthority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        TestCertificateAuthority(
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
        )
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for all [`NAMES`], modified by `change`.
    pub(crate) fn issue(
        &self,
        change: impl FnOnce(&mut CertificateParams),
    ) -> TestServerCertificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(NAMES.map(String::from)).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        TestServerCertificate {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            key,
        }
    }
}

impl TestServerCertificate {
    /// A self-signed certificate of the form that openssl makes.
    pub(crate) fn self_signed(
        change: impl FnOnce(&mut CertificateParams),
    ) -> TestServerCertificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(NAMES.map(String::from)).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let certificate = params.self_signed(&key).unwrap();
        TestServerCertificate {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            key,
        }
    }

    fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A fake server. Dropping it closes its port and all its connections.
pub(crate) struct FakeWebhookServer {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    accept_task: AbortHandle,
}

pub(crate) type FakeResponseBody = BoxBody<Bytes, Infallible>;

pub(crate) fn full(text: impl Into<Bytes>) -> FakeResponseBody {
    Full::new(text.into()).boxed()
}

impl FakeWebhookServer {
    /// Calls `serve` with each accepted TCP connection.
    pub(crate) async fn tcp<F, S>(serve: S) -> FakeWebhookServer
    where
        S: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let accepting = tokio::spawn(async move {
            let mut serving = tokio::task::JoinSet::new();
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                serving.spawn(serve(connection));
            }
        });
        FakeWebhookServer {
            address,
            connections,
            accept_task: accepting.abort_handle(),
        }
    }

    /// Accepts connections and never sends anything.
    pub(crate) async fn silent() -> FakeWebhookServer {
        FakeWebhookServer::tcp(|connection| async move {
            let _connection = connection;
            std::future::pending::<()>().await;
        })
        .await
    }

    /// Calls `serve` with each connection after the TLS handshake.
    pub(crate) async fn tls<F, S>(identity: &TestServerCertificate, serve: S) -> FakeWebhookServer
    where
        S: Fn(TlsStream<TcpStream>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let acceptor = identity.acceptor(&[]);
        FakeWebhookServer::tcp(move |connection| {
            let (acceptor, serve) = (acceptor.clone(), serve.clone());
            async move {
                if let Ok(stream) = acceptor.accept(connection).await {
                    serve(stream).await;
                }
            }
        })
        .await
    }

    /// Serves HTTP over one of `protocols` (ALPN).
    pub(crate) async fn http<F, A>(
        identity: &TestServerCertificate,
        protocols: &[&str],
        answer: A,
    ) -> FakeWebhookServer
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<FakeResponseBody>> + Send + 'static,
    {
        let acceptor = identity.acceptor(protocols);
        FakeWebhookServer::tcp(move |connection| {
            let (acceptor, answer) = (acceptor.clone(), answer.clone());
            async move {
                let Ok(stream) = acceptor.accept(connection).await else {
                    return;
                };
                let service = service_fn(move |request| {
                    let answer = answer(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        })
        .await
    }

    /// Responds "yes" to every request.
    pub(crate) async fn answering_yes(identity: &TestServerCertificate) -> FakeWebhookServer {
        FakeWebhookServer::http(identity, &[], |_| async { Response::new(full("yes")) }).await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The server's URL on the loopback address.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}/path", self.address.port())
    }
}

impl Drop for FakeWebhookServer {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}
