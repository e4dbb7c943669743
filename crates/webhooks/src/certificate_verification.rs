//! TLS client configuration: verifies server certificates against a CA bundle or the system's roots.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::WebhookCallError;

/// Trusted root certificates.
#[derive(Debug)]
pub(crate) struct RootCertificates {
    store: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
}

impl RootCertificates {
    /// The certificates of a PEM bundle. Like upstream, other content is ignored if there is at least one certificate.
    pub(crate) fn from_pem_bundle(pem: &[u8]) -> Result<RootCertificates, WebhookCallError> {
        let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        RootCertificates::from_certificates(certificates.collect()).ok_or_else(|| {
            WebhookCallError::CaBundle("unable to parse bytes as PEM block".to_owned())
        })
    }

    /// The system's root certificates. Reads files.
    pub(crate) fn from_system() -> Result<RootCertificates, WebhookCallError> {
        let found = rustls_native_certs::load_native_certs();
        RootCertificates::from_certificates(found.certs).ok_or_else(|| {
            WebhookCallError::CaBundle("no system root certificates found".to_owned())
        })
    }

    fn from_certificates(certificates: Vec<CertificateDer<'static>>) -> Option<RootCertificates> {
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(certificates.iter().cloned());
        (added > 0).then(|| RootCertificates {
            store: Arc::new(store),
            certificates,
        })
    }

    /// Session resumption is disabled: it would skip verifying the certificate, which may have expired since.
    pub(crate) fn client_config(&self, protocol: &[u8]) -> Result<ClientConfig, WebhookCallError> {
        let provider = Arc::new(ring::default_provider());
        let failed = |error: String| WebhookCallError::CaBundle(error);
        let webpki =
            WebPkiServerVerifier::builder_with_provider(self.store.clone(), provider.clone())
                .build()
                .map_err(|error| failed(error.to_string()))?;
        let verifier = WebhookCertVerifier {
            webpki,
            bundled: self.certificates.clone(),
        };
        let mut config = config_builder(provider)
            .map_err(|error| failed(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }
}

fn config_builder(
    provider: Arc<CryptoProvider>,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

/// Verifies like webpki, except where Go accepts more: the server's certificate may itself be in the bundle, even if it
/// is a CA certificate. A self-signed certificate made with openssl is one, and many webhooks use those.
#[derive(Debug)]
struct WebhookCertVerifier {
    webpki: Arc<WebPkiServerVerifier>,
    bundled: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for WebhookCertVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.bundled.iter().any(|listed| listed == end_entity) {
            return verify_bundled(end_entity, server_name, now);
        }
        self.webpki
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Checks a certificate that is itself in the bundle: validity period, extended key usage and server name.
fn verify_bundled(
    certificate: &CertificateDer<'_>,
    server_name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, Error> {
    let (_, read) =
        X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let unix = |seconds: i64| {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(
            u64::try_from(seconds).unwrap_or(0),
        ))
    };
    let not_before = unix(read.validity().not_before.timestamp());
    let not_after = unix(read.validity().not_after.timestamp());
    if now < not_before {
        return Err(CertificateError::NotValidYetContext {
            time: now,
            not_before,
        }
        .into());
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext {
            time: now,
            not_after,
        }
        .into());
    }
    let purposes = read
        .extended_key_usage()
        .map_err(|_| CertificateError::BadEncoding)?;
    if purposes.is_some_and(|purposes| !purposes.value.server_auth && !purposes.value.any) {
        return Err(CertificateError::InvalidPurpose.into());
    }
    verify_server_name(&ParsedCertificate::try_from(certificate)?, server_name)?;
    Ok(ServerCertVerified::assertion())
}
