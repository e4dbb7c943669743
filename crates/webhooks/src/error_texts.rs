//! Connection errors worded like Go's `net`, `tls` and `x509` packages, because users search for those texts.

use std::error::Error;
use std::io::{self, ErrorKind};

use rhumb_meta::clock::Timestamp;
use rustls::{AlertDescription, CertificateError, InvalidMessage};
use rustls_pki_types::{ServerName, UnixTime};

use crate::connect::ConnectError;

/// The text of the first error in the source chain that has a Go equivalent, else of the innermost error.
pub(crate) fn error_message(error: &(dyn Error + 'static)) -> String {
    let mut next = Some(error);
    let mut last = error;
    while let Some(error) = next {
        if let Some(text) = known_error_message(error) {
            return text;
        }
        last = error;
        next = wrapped_error(error);
    }
    last.to_string()
}

/// The wrapped error. `io::Error::source` skips the error that an I/O error wraps.
fn wrapped_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().map(io::Error::get_ref) {
        Some(Some(wrapped)) => Some(wrapped),
        _ => error.source(),
    }
}

fn known_error_message(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<ConnectError>() {
        return Some(error.to_string());
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(tls_error_message(error));
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return http_error_message(error);
    }
    let error = error.downcast_ref::<io::Error>()?;
    match error.kind() {
        ErrorKind::ConnectionReset => Some("read: connection reset by peer".to_owned()),
        ErrorKind::BrokenPipe => Some("write: broken pipe".to_owned()),
        // tokio-rustls wraps TLS errors in I/O errors.
        ErrorKind::UnexpectedEof
            if error
                .get_ref()
                .is_none_or(|inner| !inner.is::<rustls::Error>()) =>
        {
            Some("EOF".to_owned())
        }
        _ => None,
    }
}

fn http_error_message(error: &hyper::Error) -> Option<String> {
    if error.is_incomplete_message() {
        Some("EOF".to_owned())
    } else if error.is_parse() {
        Some(format!(
            "net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error}"
        ))
    } else {
        None
    }
}

pub(crate) fn dial_error_message(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        ErrorKind::TimedOut => "connect: connection timed out".to_owned(),
        _ => format!("connect: {error}"),
    }
}

fn tls_error_message(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(reason) => {
            format!(
                "tls: failed to verify certificate: x509: {}",
                x509_error_message(reason)
            )
        }
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("remote error: tls: {}", alert_message(*alert))
        }
        error => format!("tls: {error}"),
    }
}

fn alert_message(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::HandshakeFailure => "handshake failure",
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::CertificateRequired => "certificate required",
        AlertDescription::ProtocolVersion => "protocol version not supported",
        AlertDescription::InternalError => "internal error",
        AlertDescription::UnrecognisedName => "unrecognized name",
        AlertDescription::NoApplicationProtocol => "no application protocol",
        AlertDescription::UnknownCA => "unknown certificate authority",
        alert => return format!("alert({})", u8::from(alert)),
    };
    text.to_owned()
}

fn x509_error_message(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => format!(
            "certificate has expired or is not yet valid: current time {} is after {}",
            rfc3339(*time),
            rfc3339(*not_after)
        ),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "certificate has expired or is not yet valid: current time {} is before {}",
            rfc3339(*time),
            rfc3339(*not_before)
        ),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => name_mismatch_message(expected, presented),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::BadEncoding => "malformed certificate".to_owned(),
        error => error.to_string(),
    }
}

/// rustls formats the names of a certificate as `DnsName("a.example")` and `IpAddress(127.0.0.1)`.
fn name_mismatch_message(expected: &ServerName<'_>, presented: &[String]) -> String {
    let of = |form: &str| -> Vec<&str> {
        presented
            .iter()
            .filter_map(|name| {
                name.strip_prefix(form)?
                    .strip_prefix('(')?
                    .strip_suffix(')')
            })
            .map(|name| name.trim_matches('"'))
            .collect()
    };
    let (valid, none) = match expected {
        ServerName::IpAddress(_) => (
            of("IpAddress"),
            format!(
                "cannot validate certificate for {} because it doesn't contain any IP SANs",
                expected.to_str()
            ),
        ),
        _ => (
            of("DnsName"),
            format!(
                "certificate is not valid for any names, but wanted to match {}",
                expected.to_str()
            ),
        ),
    };
    if valid.is_empty() {
        return none;
    }
    let valid = valid.join(", ");
    format!(
        "certificate is valid for {valid}, not {}",
        expected.to_str()
    )
}

fn rfc3339(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_unix(seconds, 0).rfc3339().to_string()
}
