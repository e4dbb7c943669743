//! Webhook servers on the loopback device, good and bad, with certificates of their own.

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

/// Every server has this name, and is at this address.
pub(crate) const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "hook.ns.svc"];

/// Signs the certificates of servers.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What a server shows: a certificate and its key.
pub(crate) struct Identity {
    pub(crate) pem: String,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for all [`NAMES`], after `change`.
    pub(crate) fn identity(&self, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(NAMES.map(String::from)).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            key,
        }
    }
}

impl Identity {
    /// A certificate that only itself vouches for, of the form that openssl makes.
    pub(crate) fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(NAMES.map(String::from)).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let certificate = params.self_signed(&key).unwrap();
        Identity {
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

/// A server; dropping it closes its port and all of its connections.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    accepting: AbortHandle,
}

pub(crate) type Body = BoxBody<Bytes, Infallible>;

pub(crate) fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

impl Server {
    /// Does `serve` with every connection, as it comes.
    pub(crate) async fn tcp<F, S>(serve: S) -> Server
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
        Server {
            address,
            connections,
            accepting: accepting.abort_handle(),
        }
    }

    /// Takes connections and never says a word.
    pub(crate) async fn silent() -> Server {
        Server::tcp(|connection| async move {
            let _connection = connection;
            std::future::pending::<()>().await;
        })
        .await
    }

    /// Does `serve` with every connection once TLS stands on it.
    pub(crate) async fn tls<F, S>(identity: &Identity, serve: S) -> Server
    where
        S: Fn(TlsStream<TcpStream>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let acceptor = identity.acceptor(&[]);
        Server::tcp(move |connection| {
            let (acceptor, serve) = (acceptor.clone(), serve.clone());
            async move {
                if let Ok(stream) = acceptor.accept(connection).await {
                    serve(stream).await;
                }
            }
        })
        .await
    }

    /// Answers requests over one of `protocols`.
    pub(crate) async fn http<F, A>(identity: &Identity, protocols: &[&str], answer: A) -> Server
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let acceptor = identity.acceptor(protocols);
        Server::tcp(move |connection| {
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

    /// Says "yes" to everything.
    pub(crate) async fn agreeing(identity: &Identity) -> Server {
        Server::http(identity, &[], |_| async { Response::new(full("yes")) }).await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// A URL by which only the machine itself would call it.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}/path", self.address.port())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
