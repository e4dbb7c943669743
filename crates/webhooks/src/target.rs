//! Where a webhook is called (URL or Service), and which CA bundle its certificate is verified against.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rhumb_meta::gotext::quote;
use ring::digest;
use rustls_pki_types::ServerName;
use thiserror::Error;

const DEFAULT_PORT: u16 = 443;

/// Resolves Services to addresses. Called for every webhook call, so it should answer from memory.
pub trait ServiceResolver: Send + Sync {
    /// The addresses of a Service, all equivalent. The error is shown to the client whose request is rejected because
    /// of it.
    fn resolve(&self, service: &TargetService) -> Result<Vec<TargetAddress>, String>;
}

/// A Service port as a webhook's `clientConfig.service` names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TargetService {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

/// Where to connect: an IP address or a DNS name, and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetAddress {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A webhook server to call. Built once per configuration; cheap to clone.
#[derive(Debug, Clone)]
pub struct WebhookTarget(Arc<WebhookTargetInner>);

#[derive(Debug)]
struct WebhookTargetInner {
    /// Scheme, authority and path, without a query.
    url: String,
    server_name: ServerName<'static>,
    location: TargetLocation,
    ca_bundle: Option<CaBundle>,
}

/// The server's location as the configuration states it, before Services are resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TargetLocation {
    Fixed(TargetAddress),
    Service(TargetService),
}

/// The CA certificates of a configuration, and a digest that identifies them.
#[derive(Debug)]
pub(crate) struct CaBundle {
    pub(crate) pem: Vec<u8>,
    pub(crate) digest: [u8; digest::SHA256_OUTPUT_LEN],
}

/// Why a `clientConfig` is unusable. API validation rejects such configurations.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebhookTargetError {
    #[error("Unparsable URL: {0}")]
    Unparsable(String),
    #[error("{0} is not an https URL")]
    NotHttps(String),
    #[error("{0} is not a valid TLS server name")]
    ServerName(String),
}

impl WebhookTarget {
    /// A target given by URL. Its query and fragment are dropped, as upstream does.
    pub fn from_url(
        url: &str,
        ca_bundle: Option<&[u8]>,
    ) -> Result<WebhookTarget, WebhookTargetError> {
        let unparsable = |reason: String| WebhookTargetError::Unparsable(reason);
        let uri: Uri = url
            .parse()
            .map_err(|error| unparsable(format!("parse {}: {error}", quote(url))))?;
        if uri.scheme_str() != Some("https") {
            return Err(WebhookTargetError::NotHttps(quote(url).to_string()));
        }
        let authority = uri
            .authority()
            .ok_or_else(|| unparsable(format!("parse {}: no host", quote(url))))?;
        let host = authority.host();
        let host = host.strip_prefix('[').unwrap_or(host);
        let host = host.strip_suffix(']').unwrap_or(host).to_owned();
        let port = authority.port_u16().unwrap_or(DEFAULT_PORT);
        // Drop the user info of the authority.
        let at = authority.as_str();
        let at = at.rsplit_once('@').map_or(at, |(_, host)| host);
        Ok(WebhookTarget(Arc::new(WebhookTargetInner {
            url: format!("https://{at}{}", clean_path(uri.path())),
            server_name: server_name(&host)?,
            location: TargetLocation::Fixed(TargetAddress { host, port }),
            ca_bundle: CaBundle::from_pem(ca_bundle),
        })))
    }

    /// A target given by Service. Its certificate must be valid for `<name>.<namespace>.svc`.
    pub fn from_service(
        service: TargetService,
        path: Option<&str>,
        ca_bundle: Option<&[u8]>,
    ) -> Result<WebhookTarget, WebhookTargetError> {
        let host = format!("{}.{}.svc", service.name, service.namespace);
        let path = clean_path(path.unwrap_or_default());
        let url = format!("https://{host}:{}{path}", service.port);
        if let Err(error) = url.parse::<Uri>() {
            let reason = format!("parse {}: {error}", quote(&url));
            return Err(WebhookTargetError::Unparsable(reason));
        }
        Ok(WebhookTarget(Arc::new(WebhookTargetInner {
            url,
            server_name: server_name(&host)?,
            location: TargetLocation::Service(service),
            ca_bundle: CaBundle::from_pem(ca_bundle),
        })))
    }

    /// The URL of a call; the `timeout` query parameter tells the server how long the call may take.
    pub(crate) fn url_with_timeout(&self, timeout: Duration) -> String {
        format!(
            "{}?timeout={}",
            self.0.url,
            GoDurationSeconds::round_up(timeout)
        )
    }

    pub(crate) fn server_name(&self) -> &ServerName<'static> {
        &self.0.server_name
    }

    pub(crate) fn location(&self) -> &TargetLocation {
        &self.0.location
    }

    pub(crate) fn ca_bundle(&self) -> Option<&CaBundle> {
        self.0.ca_bundle.as_ref()
    }
}

impl CaBundle {
    /// An empty bundle counts as absent, as upstream has it.
    fn from_pem(pem: Option<&[u8]>) -> Option<CaBundle> {
        let pem = pem.filter(|pem| !pem.is_empty())?.to_vec();
        let mut sum = [0; digest::SHA256_OUTPUT_LEN];
        sum.copy_from_slice(digest::digest(&digest::SHA256, &pem).as_ref());
        Some(CaBundle { pem, digest: sum })
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, WebhookTargetError> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| WebhookTargetError::ServerName(quote(host).to_string()))
}

/// The path as Go's `path.Join` cleans it: a leading slash, no trailing one, and no `.` or `..` segments.
fn clean_path(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// Whole seconds, formatted like Go's `time.Duration`.
struct GoDurationSeconds(u64);

impl GoDurationSeconds {
    fn round_up(duration: Duration) -> GoDurationSeconds {
        GoDurationSeconds(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
    }
}

impl fmt::Display for GoDurationSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 60, self.0 % 60) {
            (0, seconds) => write!(f, "{seconds}s"),
            (minutes, seconds) => write!(f, "{minutes}m{seconds}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_built_like_upstream() {
        let cases = [
            ("https://a.example/", "https://a.example/?timeout=2s"),
            ("https://a.example", "https://a.example/?timeout=2s"),
            (
                "https://a.example:8443/x//y/./z/../",
                "https://a.example:8443/x/y?timeout=2s",
            ),
            (
                "https://user:word@a.example/x?y=z",
                "https://a.example/x?timeout=2s",
            ),
            ("https://[::1]:8443/x", "https://[::1]:8443/x?timeout=2s"),
        ];
        for (url, expect) in cases {
            let target = WebhookTarget::from_url(url, None).unwrap();
            assert_eq!(target.url_with_timeout(Duration::from_millis(1001)), expect);
        }
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for url in [
            "",
            "/path",
            "http://a.example/",
            "https://",
            "https://a b/",
            "https://a..b/",
        ] {
            assert!(WebhookTarget::from_url(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn service_urls_use_the_service_name() {
        let service = TargetService {
            namespace: "ns".into(),
            name: "hook".into(),
            port: 443,
        };
        let target = WebhookTarget::from_service(service, None, Some(b"")).unwrap();
        assert_eq!(
            target.url_with_timeout(Duration::from_secs(90)),
            "https://hook.ns.svc:443/?timeout=1m30s"
        );
        assert_eq!(
            target.server_name(),
            &ServerName::try_from("hook.ns.svc").unwrap()
        );
        assert!(target.ca_bundle().is_none());
    }

    #[test]
    fn addresses_print_as_go_joins_them() {
        for (host, expect) in [("10.0.0.1", "10.0.0.1:443"), ("::1", "[::1]:443")] {
            let address = TargetAddress {
                host: host.into(),
                port: 443,
            };
            assert_eq!(address.to_string(), expect);
        }
    }
}
