//! An HTTP client that sends requests unchanged and returns raw responses.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::kubeconfig::Kubeconfig;

const ANSWER_TIME_MAX: Duration = Duration::from_secs(40);
/// Silence after which a stream counts as having no more events.
const EVENT_TIME_MAX: Duration = Duration::from_secs(4);
const BODY_BYTES_MAX: usize = 64 << 20;

/// A request to send.
#[derive(Clone, Debug, Default)]
pub struct RawRequest {
    pub method: String,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    pub identity: RequestIdentity,
    /// Reads this many lines of the response, then disconnects.
    pub lines: Option<usize>,
}

/// The identity of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestIdentity {
    /// The credentials of the kubeconfig.
    #[default]
    Admin,
    /// No certificate and no token.
    Nobody,
    Token(String),
}

/// The response as received.
#[derive(Clone, Debug)]
pub struct RawResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Opens one connection per request, so that requests are independent.
#[derive(Clone, Debug)]
pub struct RawClient {
    address: String,
    token: Option<String>,
    as_admin: Arc<ClientConfig>,
    as_nobody: Arc<ClientConfig>,
}

impl RawClient {
    pub fn new(kubeconfig: &Kubeconfig) -> Result<Self> {
        let address = kubeconfig.server.strip_prefix("https://");
        let mut trusted = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&kubeconfig.authority_pem) {
            trusted.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trusting = || {
            let builder = ClientConfig::builder_with_provider(provider.clone());
            let versions = builder.with_safe_default_protocol_versions()?;
            Ok::<_, rustls::Error>(versions.with_root_certificates(trusted.clone()))
        };
        let as_admin = match &kubeconfig.identity_pem {
            Some((certificates, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificates);
                let chain = chain.collect::<Result<Vec<_>, _>>()?;
                trusting()?.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
            }
            None => trusting()?.with_no_client_auth(),
        };
        Ok(Self {
            address: address.context("the server is not on https")?.to_owned(),
            token: kubeconfig.token.clone(),
            as_admin: Arc::new(as_admin),
            as_nobody: Arc::new(trusting()?.with_no_client_auth()),
        })
    }

    pub async fn ask(&self, question: &RawRequest) -> Result<RawResponse> {
        timeout(ANSWER_TIME_MAX, self.ask_patiently(question))
            .await
            .context("no answer in time")?
    }

    async fn ask_patiently(&self, question: &RawRequest) -> Result<RawResponse> {
        let tls = match question.identity {
            RequestIdentity::Admin => &self.as_admin,
            RequestIdentity::Nobody | RequestIdentity::Token(_) => &self.as_nobody,
        };
        let socket = TcpStream::connect(&self.address).await?;
        socket.set_nodelay(true)?;
        let host = self.address.rsplit_once(':').context("no port")?.0;
        let name = ServerName::try_from(host.to_owned())?;
        let stream = TlsConnector::from(tls.clone())
            .connect(name, socket)
            .await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        let answer = sender.send_request(self.request(question)?).await?;
        let (parts, body) = answer.into_parts();
        let body = match question.lines {
            Some(lines) if parts.status.is_success() => first_lines(body, lines).await?,
            _ => whole(body).await?,
        };
        driver.abort();
        Ok(RawResponse {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    fn request(&self, question: &RawRequest) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(question.body.clone()));
        *request.method_mut() = question.method.parse()?;
        *request.uri_mut() = question.path.parse().context("bad path")?;
        let headers = request.headers_mut();
        headers.insert("host", self.address.parse()?);
        let token = match &question.identity {
            RequestIdentity::Admin => self.token.as_ref(),
            RequestIdentity::Nobody => None,
            RequestIdentity::Token(token) => Some(token),
        };
        if let Some(token) = token {
            headers.insert("authorization", format!("Bearer {token}").parse()?);
        }
        for (name, value) in &question.headers {
            headers.append(
                HeaderName::try_from(name.as_str())?,
                HeaderValue::try_from(value.as_str())?,
            );
        }
        Ok(request)
    }
}

async fn whole(mut body: Incoming) -> Result<Bytes> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > BODY_BYTES_MAX {
            bail!("the answer is larger than {BODY_BYTES_MAX} bytes");
        }
    }
    Ok(bytes.into())
}

/// Reads until this many lines arrived, the stream ends, or it is silent for too long.
async fn first_lines(mut body: Incoming, lines: usize) -> Result<Bytes> {
    let mut bytes = Vec::<u8>::new();
    let mut deadline = Instant::now() + EVENT_TIME_MAX;
    loop {
        let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        if let Some((end, _)) = ends.nth(lines.saturating_sub(1)) {
            bytes.truncate(end);
            break;
        }
        let Ok(Some(frame)) = timeout_at(deadline, body.frame()).await else {
            break;
        };
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        deadline = Instant::now() + EVENT_TIME_MAX;
    }
    Ok(bytes.into())
}
