//! A kube-rs client over HTTP/2, if the server supports it. The default transport of kube-rs is HTTP/1.1, which needs a
//! connection with a TLS handshake for each concurrent request.

use std::time::Duration;

use anyhow::{Context, Result};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use rustls_pki_types::ServerName;
use tower::ServiceBuilder;

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A connection whose server does not answer a ping in time is closed, and its requests fail.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_MAX: Duration = Duration::from_secs(10);
/// Flow control windows. The defaults slow down watches of large clusters.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

/// A client with the credentials of the configuration.
pub(super) fn client(config: &Config) -> Result<Client> {
    if config.proxy_url.is_some() {
        // The default transport of kube-rs supports proxies. Callers decide about retries.
        let mut config = config.clone();
        config.default_retry = false;
        return Ok(Client::try_from(config)?);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_MAX));
    let tls = config.rustls_client_config()?;
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).context("invalid TLS server name")?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = builder.enable_all_versions().wrap_connector(connector);
    let transport: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_MAX)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(transport);
    Ok(Client::new(service, config.default_namespace.clone()))
}
