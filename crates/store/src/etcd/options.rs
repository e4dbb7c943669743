//! Connection options of an etcd cluster.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Endpoints, TLS, credentials and timeouts of an etcd cluster.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// One URL per member: `https://host:2379`, or `http://` without TLS.
    pub endpoints: Vec<String>,
    /// Required for, and only allowed with, `https://` endpoints.
    pub tls: Option<EtcdTlsOptions>,
    /// Required if the cluster has authentication enabled.
    pub credentials: Option<EtcdUserCredentials>,
    /// The timeout of one TCP and TLS handshake.
    pub connect_timeout: Duration,
    /// The timeout of one call, including retries.
    pub request_timeout: Duration,
    /// How long to try to resolve the outcome of a transaction whose response was lost, before it is reported as
    /// [`crate::Error::OutcomeUnknown`].
    pub settle_timeout: Duration,
    /// The interval of keep-alive pings on a silent connection with active calls. etcd closes connections that are
    /// pinged more often than every five seconds.
    pub keep_alive_interval: Duration,
    /// How long to wait for the response to a ping before the connection is closed.
    pub keep_alive_timeout: Duration,
    /// Outcome slots of other instances are removed if they have not changed for this long.
    pub abandoned_after: Duration,
}

impl EtcdOptions {
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        EtcdOptions {
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
pub struct EtcdTlsOptions {
    /// The CA of the servers' certificates. The system's CA list is not used, because etcd certificates are issued by a
    /// CA of the cluster.
    pub ca_file: PathBuf,
    /// For servers that require a client certificate.
    pub client: Option<ClientCertificateFiles>,
    /// The name in the servers' certificates, if it differs from the host of the endpoint.
    pub server_name: Option<String>,
}

impl EtcdTlsOptions {
    pub fn new(ca_file: impl Into<PathBuf>) -> Self {
        EtcdTlsOptions {
            ca_file: ca_file.into(),
            client: None,
            server_name: None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct ClientCertificateFiles {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

/// An etcd user.
#[derive(Clone)]
pub struct EtcdUserCredentials {
    pub user: String,
    pub password: String,
}

/// Omits the password, so that it does not end up in logs.
impl fmt::Debug for EtcdUserCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUserCredentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_omits_the_password() {
        let options = EtcdOptions {
            credentials: Some(EtcdUserCredentials {
                user: "root".to_owned(),
                password: "hunter2".to_owned(),
            }),
            ..EtcdOptions::new(["http://127.0.0.1:2379"])
        };
        let shown = format!("{options:?}");
        assert!(
            shown.contains("root") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}
