//! Whom to call: a URL or a service, and whose certificates to believe.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rhumb_meta::gotext::quote;
use ring::digest;
use rustls_pki_types::ServerName;
use thiserror::Error;

const DEFAULT_PORT: u16 = 443;

/// Says where services are. It is asked for every call, so it should look into memory.
pub trait Resolver: Send + Sync {
    /// The addresses of a service: any of them will do. The error is shown to whoever is refused because of it.
    fn resolve(&self, service: &Service) -> Result<Vec<Address>, String>;
}

/// A service as configurations name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Service {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

/// Where to connect: an IP address or a name that DNS knows, and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Whom to call. It is made once for a configuration and cheap to copy.
#[derive(Debug, Clone)]
pub struct Target(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// Scheme, authority and path, without a query.
    url: String,
    server_name: ServerName<'static>,
    place: Place,
    ca_bundle: Option<CaBundle>,
}

/// Where a server is, in the words of configurations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Fixed(Address),
    Service(Service),
}

/// The certificates that a configuration brings, and a digest by which they are told from others.
#[derive(Debug)]
pub(crate) struct CaBundle {
    pub(crate) pem: Vec<u8>,
    pub(crate) digest: [u8; digest::SHA256_OUTPUT_LEN],
}

/// Why there is nobody to call. Validation keeps such configurations out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    #[error("Unparsable URL: {0}")]
    Unparsable(String),
    #[error("{0} is not an https URL")]
    NotHttps(String),
    #[error("{0} is no name that a certificate could have")]
    ServerName(String),
}

impl Target {
    /// A server by its URL. A query or a fragment in it is dropped, as upstream does.
    pub fn url(url: &str, ca_bundle: Option<&[u8]>) -> Result<Target, TargetError> {
        let unparsable = |reason: String| TargetError::Unparsable(reason);
        let uri: Uri = url
            .parse()
            .map_err(|error| unparsable(format!("parse {}: {error}", quote(url))))?;
        if uri.scheme_str() != Some("https") {
            return Err(TargetError::NotHttps(quote(url).to_string()));
        }
        let authority = uri
            .authority()
            .ok_or_else(|| unparsable(format!("parse {}: no host", quote(url))))?;
        let host = authority.host();
        let host = host.strip_prefix('[').unwrap_or(host);
        let host = host.strip_suffix(']').unwrap_or(host).to_owned();
        let port = authority.port_u16().unwrap_or(DEFAULT_PORT);
        // The authority is written again without the user that it may name.
        let at = authority.as_str();
        let at = at.rsplit_once('@').map_or(at, |(_, host)| host);
        Ok(Target(Arc::new(Parts {
            url: format!("https://{at}{}", clean_path(uri.path())),
            server_name: server_name(&host)?,
            place: Place::Fixed(Address { host, port }),
            ca_bundle: CaBundle::of(ca_bundle),
        })))
    }

    /// A service of the cluster. Its certificate must be for `<name>.<namespace>.svc`.
    pub fn service(
        service: Service,
        path: Option<&str>,
        ca_bundle: Option<&[u8]>,
    ) -> Result<Target, TargetError> {
        let host = format!("{}.{}.svc", service.name, service.namespace);
        let path = clean_path(path.unwrap_or_default());
        let url = format!("https://{host}:{}{path}", service.port);
        if let Err(error) = url.parse::<Uri>() {
            let reason = format!("parse {}: {error}", quote(&url));
            return Err(TargetError::Unparsable(reason));
        }
        Ok(Target(Arc::new(Parts {
            url,
            server_name: server_name(&host)?,
            place: Place::Service(service),
            ca_bundle: CaBundle::of(ca_bundle),
        })))
    }

    /// The URL of a call that may take `timeout`, which the server is told.
    pub(crate) fn url_within(&self, timeout: Duration) -> String {
        format!("{}?timeout={}", self.0.url, GoSeconds::round_up(timeout))
    }

    pub(crate) fn server_name(&self) -> &ServerName<'static> {
        &self.0.server_name
    }

    pub(crate) fn place(&self) -> &Place {
        &self.0.place
    }

    pub(crate) fn ca_bundle(&self) -> Option<&CaBundle> {
        self.0.ca_bundle.as_ref()
    }
}

impl CaBundle {
    /// An empty bundle is none, as upstream has it.
    fn of(pem: Option<&[u8]>) -> Option<CaBundle> {
        let pem = pem.filter(|pem| !pem.is_empty())?.to_vec();
        let mut sum = [0; digest::SHA256_OUTPUT_LEN];
        sum.copy_from_slice(digest::digest(&digest::SHA256, &pem).as_ref());
        Some(CaBundle { pem, digest: sum })
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, TargetError> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| TargetError::ServerName(quote(host).to_string()))
}

/// The path as Go's `path.Join` leaves it: it begins with a slash, does not end with one, and has no dots.
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

/// Whole seconds as Go prints a duration of them.
struct GoSeconds(u64);

impl GoSeconds {
    fn round_up(duration: Duration) -> GoSeconds {
        GoSeconds(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
    }
}

impl fmt::Display for GoSeconds {
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
    fn urls_are_called_as_upstream_does() {
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
            let target = Target::url(url, None).unwrap();
            assert_eq!(target.url_within(Duration::from_millis(1001)), expect);
        }
    }

    #[test]
    fn urls_that_cannot_be_called() {
        for url in [
            "",
            "/path",
            "http://a.example/",
            "https://",
            "https://a b/",
            "https://a..b/",
        ] {
            assert!(Target::url(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn a_service_has_its_own_name() {
        let service = Service {
            namespace: "ns".into(),
            name: "hook".into(),
            port: 443,
        };
        let target = Target::service(service, None, Some(b"")).unwrap();
        assert_eq!(
            target.url_within(Duration::from_secs(90)),
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
            let address = Address {
                host: host.into(),
                port: 443,
            };
            assert_eq!(address.to_string(), expect);
        }
    }
}
