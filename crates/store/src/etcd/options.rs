//! How to reach an etcd cluster.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Where the cluster is, who we are, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Options {
    /// One URL per member: `https://host:2379`, or `http://` without TLS.
    pub endpoints: Vec<String>,
    /// Needed for, and only possible with, `https://` endpoints.
    pub tls: Option<Tls>,
    /// Needed when the cluster has authentication enabled.
    pub credentials: Option<Credentials>,
    /// How long one TCP and TLS handshake may take.
    pub connect_timeout: Duration,
    /// How long one call may take, its retries included.
    pub request_timeout: Duration,
    /// How long to ask for the fate of a transaction whose answer was lost, before it is reported as
    /// [`crate::Error::OutcomeUnknown`].
    pub settle_timeout: Duration,
    /// A silent connection with something under way is probed this often (etcd closes one that is probed
    /// more often than every five seconds),
    pub keep_alive_interval: Duration,
    /// and given up after this much more silence.
    pub keep_alive_timeout: Duration,
    /// What other instances noted in etcd is removed when it has not changed for this long.
    pub abandoned_after: Duration,
}

impl Options {
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Options {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            tls: None,
            credentials: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            settle_timeout: Duration::from_secs(10),
            keep_alive_interval: Duration::from_secs(5),
            keep_alive_timeout: Duration::from_secs(5),
            abandoned_after: Duration::from_secs(60 * 60),
        }
    }
}

/// The PEM files for `https://` endpoints.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Who signed the servers' certificates. The system's own list of authorities is not used: an etcd
    /// server's certificate comes from the cluster's authority.
    pub ca_file: PathBuf,
    /// For servers that ask for a client certificate.
    pub client: Option<ClientCertificate>,
    /// The name in the servers' certificates, if it is not the host of the endpoint.
    pub server_name: Option<String>,
}

impl Tls {
    pub fn new(ca_file: impl Into<PathBuf>) -> Self {
        Tls {
            ca_file: ca_file.into(),
            client: None,
            server_name: None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct ClientCertificate {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

/// An etcd user.
#[derive(Clone)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

/// The password does not belong in logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let options = Options {
            credentials: Some(Credentials {
                user: "root".to_owned(),
                password: "hunter2".to_owned(),
            }),
            ..Options::new(["http://127.0.0.1:2379"])
        };
        let shown = format!("{options:?}");
        assert!(
            shown.contains("root") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}
