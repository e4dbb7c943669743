//! Connecting, with errors for the people who have to put them right.

use std::path::{Path, PathBuf};

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use tokio::time::Instant;

use super::OUTCOMES_PREFIX;
use super::convert::{Failure, Kind, describe};
use super::link::{Link, answer};
use super::members::Members;
use super::options::{Options, Tls};
use super::version::Version;

/// Why there is no connection to etcd.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    #[error("no etcd endpoint is given: name at least one, such as https://127.0.0.1:2379")]
    NoEndpoint,

    #[error("the etcd endpoint {endpoint:?} cannot be used: {reason}")]
    Endpoint { endpoint: String, reason: String },

    #[error("the {what} file {} for etcd cannot be used: {reason}", .path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        reason: String,
    },

    #[error("etcd at {endpoint} does not let us in: {reason}")]
    Denied { endpoint: String, reason: String },

    /// One line per endpoint.
    #[error("no etcd server can be reached: {reason}")]
    Unreachable { reason: String },
}

pub(super) async fn connect(options: Options) -> Result<Link, ConnectError> {
    if options.endpoints.is_empty() {
        return Err(ConnectError::NoEndpoint);
    }
    for endpoint in &options.endpoints {
        check_endpoint(endpoint, options.tls.is_some())?;
    }
    warn_of_plain_password(&options);
    let client_options = client_options(&options).await?;
    let version = ask_each(&options, &client_options).await?;

    let all = options.endpoints.join(", ");
    let link = Link::new(
        Members::new(&options.endpoints, &client_options),
        version,
        options.request_timeout,
        options.settle_timeout,
    );
    // A server may answer for itself without a majority, or without asking who we are; a read may not.
    link.read(OUTCOMES_PREFIX.as_bytes(), Default::default())
        .await
        .map_err(|failure| refused(&all, &options, failure))?;
    Ok(link)
}

fn warn_of_plain_password(options: &Options) {
    let plain = |endpoint: &String| endpoint.starts_with("http://");
    if let Some(credentials) = &options.credentials
        && let Some(endpoint) = options.endpoints.iter().find(|endpoint| plain(endpoint))
    {
        let user = &credentials.user;
        tracing::warn!(
            endpoint,
            user,
            "the password for etcd is sent in the clear; use https://"
        );
    }
}

/// Asks every server for its version, so that the error can say which of them is wrong and how.
///
/// One that answers is enough: the others may come later. Gives the oldest version.
async fn ask_each(
    options: &Options,
    client_options: &ConnectOptions,
) -> Result<Option<Version>, ConnectError> {
    let mut versions = Vec::new();
    let mut failures = Vec::new();
    for endpoint in &options.endpoints {
        match ask(endpoint, options, client_options).await {
            Ok(version) => versions.push(version),
            Err(error @ ConnectError::Unreachable { .. }) => failures.push(error),
            Err(error) => return Err(error),
        }
    }
    let reasons: Vec<String> = failures.into_iter().map(reason_of).collect();
    if versions.is_empty() {
        return Err(ConnectError::Unreachable {
            reason: reasons.join("; "),
        });
    }
    for reason in reasons {
        tracing::warn!(%reason, "an etcd server cannot be reached; going on with the others");
    }
    // An unknown version sorts first: of such a server nothing is assumed.
    Ok(versions.into_iter().min().flatten())
}

async fn ask(
    endpoint: &str,
    options: &Options,
    client_options: &ConnectOptions,
) -> Result<Option<Version>, ConnectError> {
    let deadline = Instant::now() + options.connect_timeout;
    let connecting = Client::connect([endpoint], Some(client_options.clone()));
    let client = answer(deadline, connecting)
        .await
        .map_err(|failure| refused(endpoint, options, failure))?;
    match answer(deadline, client.maintenance_client().status()).await {
        Ok(status) => {
            tracing::info!(endpoint, version = status.version(), "etcd answers");
            Ok(Version::parse(status.version()))
        }
        // From 3.6 on only root may ask. What we may do otherwise will show.
        Err(failure) if failure.kind == Kind::Denied => {
            tracing::warn!(
                endpoint,
                "etcd does not tell its version to this user; going on as with an old one"
            );
            Ok(None)
        }
        Err(failure) => Err(refused(endpoint, options, failure)),
    }
}

fn reason_of(error: ConnectError) -> String {
    match error {
        ConnectError::Unreachable { reason } => reason,
        other => other.to_string(),
    }
}

/// Says which endpoint failed how, and what to look at.
fn refused(endpoint: &str, options: &Options, failure: Failure) -> ConnectError {
    let reason = failure.reason;
    if failure.kind == Kind::Denied {
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
        return ConnectError::Denied {
            endpoint: endpoint.to_owned(),
            reason: format!("{reason}; {advice}"),
        };
    }
    let advice = advice(&reason, options.tls.as_ref());
    ConnectError::Unreachable {
        reason: format!("{endpoint}: {reason}{advice}"),
    }
}

fn advice(reason: &str, tls: Option<&Tls>) -> String {
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
            " (its certificate is not signed by the authority in {})",
            tls.ca_file.display()
        )
    } else if reason.contains("not valid for name") || reason.contains("NotValidForName") {
        " (its certificate is for another name: set the server name to one that it has)".to_owned()
    } else if reason.contains("refused") {
        " (is it running there?)".to_owned()
    } else if tls.client.is_none() {
        " (if the server asks for a client certificate, give a certificate and its key)".to_owned()
    } else {
        String::new()
    }
}

fn check_endpoint(endpoint: &str, has_tls: bool) -> Result<(), ConnectError> {
    // What stands before an @ may be a password.
    let shown = endpoint.rsplit('@').next().unwrap_or(endpoint);
    let reason = match endpoint.split_once("://") {
        _ if endpoint.contains('@') => "user and password are options of their own".to_owned(),
        Some(("https", host)) if !host.is_empty() => {
            if has_tls {
                return Ok(());
            }
            "https:// needs the CA file that the server's certificate is signed by".to_owned()
        }
        Some(("http", host)) if !host.is_empty() => {
            if !has_tls {
                return Ok(());
            }
            "TLS files are given, but http:// does not use TLS: write https://".to_owned()
        }
        _ => "write it as https://host:port, or http://host:port without TLS".to_owned(),
    };
    Err(ConnectError::Endpoint {
        endpoint: shown.to_owned(),
        reason,
    })
}

async fn client_options(options: &Options) -> Result<ConnectOptions, ConnectError> {
    let mut built = ConnectOptions::new()
        .with_connect_timeout(options.connect_timeout)
        .with_keep_alive(options.keep_alive_interval, options.keep_alive_timeout)
        // etcd closes a connection that is probed without a call or a stream on it.
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

async fn tls_options(tls: &Tls) -> Result<TlsOptions, ConnectError> {
    let ca = pem("CA certificate", &tls.ca_file, "CERTIFICATE-----")?;
    let mut built = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
    try_out("CA certificate", &tls.ca_file, &built).await?;
    if let Some(client) = &tls.client {
        let cert = pem("client certificate", &client.cert_file, "CERTIFICATE-----")?;
        let key = pem("client key", &client.key_file, "PRIVATE KEY-----")?;
        built = built.identity(Identity::from_pem(cert, key));
        try_out("client key", &client.key_file, &built).await?;
    }
    if let Some(name) = &tls.server_name {
        built = built.domain_name(name);
    }
    Ok(built)
}

/// The files are looked into only when a client is made of them, which needs no server.
async fn try_out(what: &'static str, path: &Path, tls: &TlsOptions) -> Result<(), ConnectError> {
    let options = ConnectOptions::new().with_tls(tls.clone());
    match Client::connect(["https://localhost"], Some(options)).await {
        Ok(_) => Ok(()),
        Err(error) => Err(ConnectError::File {
            what,
            path: path.to_owned(),
            reason: describe(&error),
        }),
    }
}

fn pem(what: &'static str, path: &Path, label: &str) -> Result<Vec<u8>, ConnectError> {
    let unusable = |reason: String| ConnectError::File {
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
        return Err(unusable(format!("it has no PEM block of a {wanted}")));
    }
    Ok(text)
}
