//! Many requests at a time over few connections: HTTP/2 where the server speaks it. kube-rs by itself has a connection,
//! and a TLS handshake, for each of them.

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
/// A server that does not answer a ping for so long is gone, and whoever waits for it is told.
const PING: Duration = Duration::from_secs(10);
const PING_MAX: Duration = Duration::from_secs(10);
/// What may be on its way to this side. The default holds up watches of large clusters.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

/// A client that is who the configuration says.
pub(super) fn client(config: &Config) -> Result<Client> {
    if config.proxy_url.is_some() {
        // It knows how to ask for a way through. What fails is told to whoever asked, who knows better than to send
        // it again.
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
        let name = ServerName::try_from(name.clone()).context("the name of the server")?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = builder.enable_all_versions().wrap_connector(connector);
    let transport: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING)
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
