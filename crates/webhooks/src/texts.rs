//! What went wrong on a connection, in the words that Go's `net`, `tls` and `x509` packages have for it: people
//! search for them.

use std::error::Error;
use std::io::{self, ErrorKind};

use rhumb_meta::clock::Timestamp;
use rustls::{AlertDescription, CertificateError, InvalidMessage};
use rustls_pki_types::{ServerName, UnixTime};

use crate::connect::ConnectError;

/// The most telling error of a chain.
pub(crate) fn cause(error: &(dyn Error + 'static)) -> String {
    let mut next = Some(error);
    let mut last = error;
    while let Some(error) = next {
        if let Some(text) = telling(error) {
            return text;
        }
        last = error;
        next = inner(error);
    }
    last.to_string()
}

/// What an error was made of. An I/O error hides what it wraps from `source`.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().map(io::Error::get_ref) {
        Some(Some(wrapped)) => Some(wrapped),
        _ => error.source(),
    }
}

fn telling(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<ConnectError>() {
        return Some(error.to_string());
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(tls(error));
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return http(error);
    }
    let error = error.downcast_ref::<io::Error>()?;
    match error.kind() {
        ErrorKind::ConnectionReset => Some("read: connection reset by peer".to_owned()),
        ErrorKind::BrokenPipe => Some("write: broken pipe".to_owned()),
        // TLS errors are I/O errors on the outside.
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

fn http(error: &hyper::Error) -> Option<String> {
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

pub(crate) fn dial(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        ErrorKind::TimedOut => "connect: connection timed out".to_owned(),
        _ => format!("connect: {error}"),
    }
}

fn tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(reason) => {
            format!("tls: failed to verify certificate: x509: {}", x509(reason))
        }
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("remote error: tls: {}", self::alert(*alert))
        }
        error => format!("tls: {error}"),
    }
}

fn alert(alert: AlertDescription) -> String {
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

fn x509(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => format!(
            "certificate has expired or is not yet valid: current time {} is after {}",
            when(*time),
            when(*not_after)
        ),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "certificate has expired or is not yet valid: current time {} is before {}",
            when(*time),
            when(*not_before)
        ),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => wrong_name(expected, presented),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::BadEncoding => "malformed certificate".to_owned(),
        error => error.to_string(),
    }
}

/// The names of a certificate come as `DnsName("a.example")` and `IpAddress(127.0.0.1)`.
fn wrong_name(expected: &ServerName<'_>, presented: &[String]) -> String {
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

fn when(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_unix(seconds, 0).rfc3339().to_string()
}
