//! Connecting to the cluster, with errors that tell the operator what to fix.

use std::path::{Path, PathBuf};

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use tokio::time::Instant;

use super::OUTCOMES_PREFIX;
use super::cluster_client::{ClusterClient, await_response};
use super::convert::{EtcdFailure, EtcdFailureKind, describe};
use super::members::MemberPool;
use super::options::{EtcdOptions, EtcdTlsOptions};
use super::version::EtcdVersion;

/// Why the connection to etcd could not be established.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdConnectError {
    #[error("no etcd endpoint is configured: give at least one, such as https://127.0.0.1:2379")]
    NoEndpoint,

    #[error("invalid etcd endpoint {endpoint:?}: {reason}")]
    Endpoint { endpoint: String, reason: String },

    #[error("invalid etcd {what} file {}: {reason}", .path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        reason: String,
    },

    #[error("etcd at {endpoint} denied access: {reason}")]
    Denied { endpoint: String, reason: String },

    /// The reason has one part per endpoint.
    #[error("no etcd member is reachable: {reason}")]
    Unreachable { reason: String },
}

pub(super) async fn connect(options: EtcdOptions) -> Result<ClusterClient, EtcdConnectError> {
    if options.endpoints.is_empty() {
        return Err(EtcdConnectError::NoEndpoint);
    }
    for endpoint in &options.endpoints {
        check_endpoint(endpoint, options.tls.is_some())?;
    }
    warn_of_plain_password(&options);
    let client_options = client_options(&options).await?;
    let version = probe_versions(&options, &client_options).await?;

    let all = options.endpoints.join(", ");
    let client = ClusterClient::new(
        MemberPool::new(&options.endpoints, &client_options),
        version,
        options.request_timeout,
        options.settle_timeout,
    );
    // The status call needs neither quorum nor authentication; a read needs both.
    client
        .read(OUTCOMES_PREFIX.as_bytes(), Default::default())
        .await
        .map_err(|failure| connect_error(&all, &options, failure))?;
    Ok(client)
}

fn warn_of_plain_password(options: &EtcdOptions) {
    let plain = |endpoint: &String| endpoint.starts_with("http://");
    if let Some(credentials) = &options.credentials
        && let Some(endpoint) = options.endpoints.iter().find(|endpoint| plain(endpoint))
    {
        let user = &credentials.user;
        tracing::warn!(
            endpoint,
            user,
            "the etcd password is sent unencrypted; use https:// endpoints"
        );
    }
}

/// Asks every member for its version, so that errors name the member that fails.
///
/// One reachable member is enough: the others may become available later. Returns the oldest version.
async fn probe_versions(
    options: &EtcdOptions,
    client_options: &ConnectOptions,
) -> Result<Option<EtcdVersion>, EtcdConnectError> {
    let mut versions = Vec::new();
    let mut failures = Vec::new();
    for endpoint in &options.endpoints {
        match probe_version(endpoint, options, client_options).await {
            Ok(version) => versions.push(version),
            Err(error @ EtcdConnectError::Unreachable { .. }) => failures.push(error),
            Err(error) => return Err(error),
        }
    }
    let reasons: Vec<String> = failures.into_iter().map(reason_of).collect();
    if versions.is_empty() {
        return Err(EtcdConnectError::Unreachable {
            reason: reasons.join("; "),
        });
    }
    for reason in reasons {
        tracing::warn!(%reason, "an etcd member is unreachable; continuing with the others");
    }
    // An unknown version sorts first, so that no feature is assumed.
    Ok(versions.into_iter().min().flatten())
}

async fn probe_version(
    endpoint: &str,
    options: &EtcdOptions,
    client_options: &ConnectOptions,
) -> Result<Option<EtcdVersion>, EtcdConnectError> {
    let deadline = Instant::now() + options.connect_timeout;
    let connecting = Client::connect([endpoint], Some(client_options.clone()));
    let client = await_response(deadline, connecting)
        .await
        .map_err(|failure| connect_error(endpoint, options, failure))?;
    match await_response(deadline, client.maintenance_client().status()).await {
        Ok(status) => {
            tracing::info!(
                endpoint,
                version = status.version(),
                "connected to etcd member"
            );
            Ok(EtcdVersion::parse(status.version()))
        }
        // From etcd 3.6 on only root may read the status. The read in `connect` shows whether access is denied.
        Err(failure) if failure.kind == EtcdFailureKind::Denied => {
            tracing::warn!(
                endpoint,
                "etcd denies its version to this user; assuming an old version"
            );
            Ok(None)
        }
        Err(failure) => Err(connect_error(endpoint, options, failure)),
    }
}

fn reason_of(error: EtcdConnectError) -> String {
    match error {
        EtcdConnectError::Unreachable { reason } => reason,
        other => other.to_string(),
    }
}

/// Converts a failure into an error with the endpoint and a hint.
fn connect_error(endpoint: &str, options: &EtcdOptions, failure: EtcdFailure) -> EtcdConnectError {
    let reason = failure.reason;
    if failure.kind == EtcdFailureKind::Denied {
        let advice = match &options.credentials {
            Some(_) if reason.contains("not enabled") => {
                "leave the user out, or enable authentication in etcd".to_owned()
            }
            Some(credentials) => format!(
                "check the password of the user {:?}, and that its role may read and write",
                credentials.user
            ),
            None => "give a user and a password".to_owned(),
        };
        return EtcdConnectError::Denied {
            endpoint: endpoint.to_owned(),
            reason: format!("{reason}; {advice}"),
        };
    }
    let advice = hint(&reason, options.tls.as_ref());
    EtcdConnectError::Unreachable {
        reason: format!("{endpoint}: {reason}{advice}"),
    }
}

fn hint(reason: &str, tls: Option<&EtcdTlsOptions>) -> String {
    let Some(tls) = tls else {
        return if reason.contains("refused") {
            " (is it running there?)".to_owned()
        } else if reason.contains("in time") {
            " (is the address right, and does a firewall let us through?)".to_owned()
        } else {
            " (if the server uses TLS, its endpoint begins with https:// and needs a CA file)"
                .to_owned()
        };
    };
    if reason.contains("UnknownIssuer") || reason.contains("BadSignature") {
        format!(
            " (its certificate is not signed by the CA in {})",
            tls.ca_file.display()
        )
    } else if reason.contains("not valid for name") || reason.contains("NotValidForName") {
        " (its certificate is for another name: set the server name to one in the certificate)"
            .to_owned()
    } else if reason.contains("refused") {
        " (is it running there?)".to_owned()
    } else if tls.client.is_none() {
        " (if the server asks for a client certificate, give a certificate and its key)".to_owned()
    } else {
        String::new()
    }
}

fn check_endpoint(endpoint: &str, has_tls: bool) -> Result<(), EtcdConnectError> {
    // The part before an @ may contain a password: do not show it.
    let shown = endpoint.rsplit('@').next().unwrap_or(endpoint);
    let reason = match endpoint.split_once("://") {
        _ if endpoint.contains('@') => "use the separate options for user and password".to_owned(),
        Some(("https", host)) if !host.is_empty() => {
            if has_tls {
                return Ok(());
            }
            "https:// requires the CA file that signed the server's certificate".to_owned()
        }
        Some(("http", host)) if !host.is_empty() => {
            if !has_tls {
                return Ok(());
            }
            "TLS files are given, but http:// does not use TLS: write https://".to_owned()
        }
        _ => "write it as https://host:port, or http://host:port without TLS".to_owned(),
    };
    Err(EtcdConnectError::Endpoint {
        endpoint: shown.to_owned(),
        reason,
    })
}

async fn client_options(options: &EtcdOptions) -> Result<ConnectOptions, EtcdConnectError> {
    let mut built = ConnectOptions::new()
        .with_connect_timeout(options.connect_timeout)
        .with_keep_alive(options.keep_alive_interval, options.keep_alive_timeout)
        // etcd closes connections with keep-alive pings but no active call or stream.
        .with_keep_alive_while_idle(false)
        .with_auto_token_refresh(true)
        .with_require_leader(true);
    if let Some(credentials) = &options.credentials {
        built = built.with_user(&credentials.user, &credentials.password);
    }
    if let Some(tls) = &options.tls {
        built = built.with_tls(tls_options(tls).await?);
    }
    Ok(built)
}

async fn tls_options(tls: &EtcdTlsOptions) -> Result<TlsOptions, EtcdConnectError> {
    let ca = read_pem("CA certificate", &tls.ca_file, "CERTIFICATE-----")?;
    let mut built = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
    validate_tls_files("CA certificate", &tls.ca_file, &built).await?;
    if let Some(client) = &tls.client {
        let cert = read_pem("client certificate", &client.cert_file, "CERTIFICATE-----")?;
        let key = read_pem("client key", &client.key_file, "PRIVATE KEY-----")?;
        built = built.identity(Identity::from_pem(cert, key));
        validate_tls_files("client key", &client.key_file, &built).await?;
    }
    if let Some(name) = &tls.server_name {
        built = built.domain_name(name);
    }
    Ok(built)
}

/// Validates the TLS files. They are parsed only when a client is built from them, which needs no server.
async fn validate_tls_files(
    what: &'static str,
    path: &Path,
    tls: &TlsOptions,
) -> Result<(), EtcdConnectError> {
    let options = ConnectOptions::new().with_tls(tls.clone());
    match Client::connect(["https://localhost"], Some(options)).await {
        Ok(_) => Ok(()),
        Err(error) => Err(EtcdConnectError::File {
            what,
            path: path.to_owned(),
            reason: describe(&error),
        }),
    }
}

fn read_pem(what: &'static str, path: &Path, label: &str) -> Result<Vec<u8>, EtcdConnectError> {
    let unusable = |reason: String| EtcdConnectError::File {
        what,
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    let holds_it = String::from_utf8_lossy(&text)
        .lines()
        .any(|line| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(label));
    if !holds_it {
        let wanted = label.trim_end_matches('-');
        return Err(unusable(format!("no PEM block of type {wanted} found")));
    }
    Ok(text)
}
