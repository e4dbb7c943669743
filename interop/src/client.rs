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

const RESPONSE_TIME_MAX: Duration = Duration::from_secs(40);
/// A stream that sends nothing for this long counts as ended.
const EVENT_INTERVAL_MAX: Duration = Duration::from_secs(4);
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
    Anonymous,
    /// A bearer token.
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
    admin_tls: Arc<ClientConfig>,
    anonymous_tls: Arc<ClientConfig>,
}

impl RawClient {
    pub fn new(kubeconfig: &Kubeconfig) -> Result<Self> {
        let address = kubeconfig.server.strip_prefix("https://");
        let mut trusted = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&kubeconfig.authority_pem) {
            trusted.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls_config = || {
            let builder = ClientConfig::builder_with_provider(provider.clone());
            let versions = builder.with_safe_default_protocol_versions()?;
            Ok::<_, rustls::Error>(versions.with_root_certificates(trusted.clone()))
        };
        let admin_tls = match &kubeconfig.identity_pem {
            Some((certificates, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificates);
                let chain = chain.collect::<Result<Vec<_>, _>>()?;
                tls_config()?.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
            }
            None => tls_config()?.with_no_client_auth(),
        };
        Ok(Self {
            address: address
                .with_context(|| format!("server {:?} is not an https URL", kubeconfig.server))?
                .to_owned(),
            token: kubeconfig.token.clone(),
            admin_tls: Arc::new(admin_tls),
            anonymous_tls: Arc::new(tls_config()?.with_no_client_auth()),
        })
    }

    /// Sends the request and waits for the complete response, or for its first lines.
    pub async fn send(&self, request: &RawRequest) -> Result<RawResponse> {
        timeout(RESPONSE_TIME_MAX, self.send_without_timeout(request))
            .await
            .with_context(|| {
                format!("no response from {} in {RESPONSE_TIME_MAX:?}", self.address)
            })?
    }

    async fn send_without_timeout(&self, request: &RawRequest) -> Result<RawResponse> {
        let tls = match request.identity {
            RequestIdentity::Admin => &self.admin_tls,
            RequestIdentity::Anonymous | RequestIdentity::Token(_) => &self.anonymous_tls,
        };
        let socket = TcpStream::connect(&self.address)
            .await
            .with_context(|| format!("failed to connect to {}", self.address))?;
        socket.set_nodelay(true)?;
        let host = self
            .address
            .rsplit_once(':')
            .with_context(|| format!("server address {} has no port", self.address))?
            .0;
        let name = ServerName::try_from(host.to_owned())?;
        let stream = TlsConnector::from(tls.clone())
            .connect(name, socket)
            .await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        let response = sender.send_request(self.http_request(request)?).await?;
        let (parts, body) = response.into_parts();
        let body = match request.lines {
            Some(lines) if parts.status.is_success() => read_lines(body, lines).await?,
            _ => read_all(body).await?,
        };
        driver.abort();
        Ok(RawResponse {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    fn http_request(&self, request: &RawRequest) -> Result<Request<Full<Bytes>>> {
        let mut http_request = Request::new(Full::new(request.body.clone()));
        *http_request.method_mut() = request.method.parse()?;
        *http_request.uri_mut() = request
            .path
            .parse()
            .with_context(|| format!("invalid path {:?}", request.path))?;
        let headers = http_request.headers_mut();
        headers.insert("host", self.address.parse()?);
        let token = match &request.identity {
            RequestIdentity::Admin => self.token.as_ref(),
            RequestIdentity::Anonymous => None,
            RequestIdentity::Token(token) => Some(token),
        };
        if let Some(token) = token {
            headers.insert("authorization", format!("Bearer {token}").parse()?);
        }
        for (name, value) in &request.headers {
            headers.append(
                HeaderName::try_from(name.as_str())?,
                HeaderValue::try_from(value.as_str())?,
            );
        }
        Ok(http_request)
    }
}

async fn read_all(mut body: Incoming) -> Result<Bytes> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > BODY_BYTES_MAX {
            bail!("the response body is larger than {BODY_BYTES_MAX} bytes");
        }
    }
    Ok(bytes.into())
}

/// Reads until this many lines arrived, the stream ends, or nothing arrives for [`EVENT_INTERVAL_MAX`].
async fn read_lines(mut body: Incoming, lines: usize) -> Result<Bytes> {
    let mut bytes = Vec::<u8>::new();
    let mut deadline = Instant::now() + EVENT_INTERVAL_MAX;
    loop {
        let mut newlines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        if let Some((end, _)) = newlines.nth(lines.saturating_sub(1)) {
            bytes.truncate(end);
            break;
        }
        let Ok(Some(frame)) = timeout_at(deadline, body.frame()).await else {
            break;
        };
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        deadline = Instant::now() + EVENT_INTERVAL_MAX;
    }
    Ok(bytes.into())
}
