//! The TLS configuration of the API server.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;

use crate::pki::ClusterPki;

/// Client certificates are optional and must be signed by the cluster CA. HTTP/2 is preferred.
pub(super) fn config(pki: &ClusterPki) -> Result<Arc<rustls::ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(pki.ca.clone()).context("CA certificate")?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .context("CA certificate")?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS versions")?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![pki.serving.certificate.clone()], pki.serving.key())
        .context("serving certificate")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
