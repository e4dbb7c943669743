//! X.509 client certificate authentication: the common name is the user, the organizations are the groups.
//!
//! Upstream: `authentication/request/x509`.

use std::sync::Arc;

use rhumb_meta::Timestamp;
use ring::digest::{SHA256, digest};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Name};

use crate::user::{User, extra_key};

/// The subject attribute with the UID of the user, in the OID space of Kubernetes.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// Why a certificate does not authenticate a user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("failed to parse the client certificate")]
    Malformed,
    #[error("the client certificate has expired or is not valid yet")]
    OutOfTime,
    #[error("expected 1 UID, but found multiple: [{}]", .0.join(" "))]
    ManyUids(Vec<String>),
    #[error("UID cannot be an empty string")]
    EmptyUid,
    #[error("unable to parse UID into a string")]
    UidNoString,
}

/// The user in a client certificate, parsed once per connection. The validity period is checked for every request,
/// because a connection can outlive its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateIdentity {
    /// `None` if the certificate has no common name.
    user: Option<Arc<User>>,
    not_before_seconds: i64,
    not_after_seconds: i64,
}

impl CertificateIdentity {
    /// Parses a certificate whose chain TLS has already verified.
    pub fn read(der: &[u8]) -> Result<CertificateIdentity, CertificateError> {
        let (_, certificate) =
            X509Certificate::from_der(der).map_err(|_| CertificateError::Malformed)?;
        let validity = certificate.validity();
        Ok(CertificateIdentity {
            user: user_of_subject(certificate.subject(), der)?
                .map(|user| Arc::new(user.authenticated())),
            not_before_seconds: validity.not_before.timestamp(),
            not_after_seconds: validity.not_after.timestamp(),
        })
    }

    /// The user, if the certificate is valid at this time; `None` if it has no common name.
    pub fn at(&self, now: Timestamp) -> Result<Option<&Arc<User>>, CertificateError> {
        let seconds = now.unix_seconds();
        if seconds < self.not_before_seconds || seconds > self.not_after_seconds {
            return Err(CertificateError::OutOfTime);
        }
        Ok(self.user.as_ref())
    }
}

fn user_of_subject(subject: &X509Name<'_>, der: &[u8]) -> Result<Option<User>, CertificateError> {
    // With several common names, Go uses the last one.
    let Some(name) = subject.iter_common_name().filter_map(text).last() else {
        return Ok(None);
    };
    if name.is_empty() {
        return Ok(None);
    }
    let mut user = User {
        name,
        uid: uid_of(subject)?,
        groups: subject.iter_organization().filter_map(text).collect(),
        ..User::default()
    };
    let id = format!("X509SHA256={}", hex(digest(&SHA256, der).as_ref()));
    user.extra
        .insert(extra_key::CREDENTIAL_ID.to_owned(), vec![id]);
    Ok(Some(user))
}

/// The subject's organizations (the groups of the user) of a PEM-encoded certificate signing request.
pub fn organizations_of_request(pem: &[u8]) -> Result<Vec<String>, String> {
    const LABEL: &str = "CERTIFICATE REQUEST";
    let (_, block) = parse_x509_pem(pem).map_err(|_| format!("PEM block type must be {LABEL}"))?;
    if block.label != LABEL {
        return Err(format!("PEM block type must be {LABEL}"));
    }
    let (_, request) = X509CertificationRequest::from_der(&block.contents)
        .map_err(|error| format!("asn1: {error}"))?;
    let subject = &request.certification_request_info.subject;
    Ok(subject.iter_organization().filter_map(text).collect())
}

fn text(attribute: &x509_parser::x509::AttributeTypeAndValue<'_>) -> Option<String> {
    attribute.as_str().ok().map(str::to_owned)
}

fn uid_of(subject: &X509Name<'_>) -> Result<String, CertificateError> {
    let mut uids = Vec::new();
    for attribute in subject.iter_attributes() {
        if attribute.attr_type().to_id_string() == UID_OID {
            uids.push(text(attribute).ok_or(CertificateError::UidNoString)?);
        }
    }
    match (uids.len(), uids.pop()) {
        (1, Some(uid)) if uid.is_empty() => Err(CertificateError::EmptyUid),
        (1, Some(uid)) => Ok(uid),
        (_, None) => Ok(String::new()),
        (_, Some(last)) => {
            uids.push(last);
            Err(CertificateError::ManyUids(uids))
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
