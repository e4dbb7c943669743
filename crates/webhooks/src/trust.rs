//! Whose certificates are believed: those that lead to a CA bundle, or to the roots of the system.

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

use crate::error::CallError;

/// Certificates that are believed without asking further.
#[derive(Debug)]
pub(crate) struct Roots {
    store: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// The certificates of a bundle. Like upstream, whatever else is in it does not matter, if there is one.
    pub(crate) fn of_bundle(pem: &[u8]) -> Result<Roots, CallError> {
        let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        Roots::of(certificates.collect())
            .ok_or_else(|| CallError::CaBundle("unable to parse bytes as PEM block".to_owned()))
    }

    /// What this machine believes. Reads files.
    pub(crate) fn of_system() -> Result<Roots, CallError> {
        let found = rustls_native_certs::load_native_certs();
        Roots::of(found.certs)
            .ok_or_else(|| CallError::CaBundle("this machine has none".to_owned()))
    }

    fn of(certificates: Vec<CertificateDer<'static>>) -> Option<Roots> {
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(certificates.iter().cloned());
        (added > 0).then(|| Roots {
            store: Arc::new(store),
            certificates,
        })
    }

    /// Sessions are never resumed: that would skip the look at the certificate, which may have expired since.
    pub(crate) fn client_config(&self, protocol: &[u8]) -> Result<ClientConfig, CallError> {
        let provider = Arc::new(ring::default_provider());
        let failed = |error: String| CallError::CaBundle(error);
        let webpki =
            WebPkiServerVerifier::builder_with_provider(self.store.clone(), provider.clone())
                .build()
                .map_err(|error| failed(error.to_string()))?;
        let verifier = Verifier {
            webpki,
            listed: self.certificates.clone(),
        };
        let mut config = builder(provider)
            .map_err(|error| failed(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }
}

fn builder(
    provider: Arc<CryptoProvider>,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

/// Webpki's judgement, and Go's where they differ: a server may show a certificate that is itself in the bundle,
/// also one that could sign others. That is what a self-signed certificate of openssl is, and many webhooks have
/// no other.
#[derive(Debug)]
struct Verifier {
    webpki: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.listed.iter().any(|listed| listed == end_entity) {
            return verify_listed(end_entity, server_name, now);
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

/// A certificate that is believed as it is must still be for this server, for servers at all, and for today.
fn verify_listed(
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
