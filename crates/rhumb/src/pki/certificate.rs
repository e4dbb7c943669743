//! Creates and checks X.509 certificates.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rhumb_meta::Timestamp;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::names::ServerCertificateNames;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const RENEW_BEFORE_EXPIRY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The use of a certificate signed by the CA.
#[derive(Debug, Clone, Copy)]
pub(super) enum CertificateProfile<'a> {
    Server(&'a ServerCertificateNames),
    Client(ClientSubject),
}

/// The subject of a client certificate: user name (CN) and group (O).
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientSubject {
    pub(super) name: &'static str,
    pub(super) group: Option<&'static str>,
}

/// A self-signed CA certificate, in PEM.
pub(super) fn make_authority(key: &KeyPair, now: Timestamp) -> Result<String> {
    let mut params = parameters("rhumb", now, AUTHORITY_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let certificate = params
        .self_signed(key)
        .context("cannot make the authority")?;
    Ok(certificate.pem())
}

/// A server or client certificate signed by the CA, in PEM.
pub(super) fn make_signed(
    key: &KeyPair,
    issuer: &Issuer<'_, KeyPair>,
    profile: CertificateProfile<'_>,
    now: Timestamp,
) -> Result<String> {
    let mut params = match profile {
        CertificateProfile::Server(_) => parameters("kube-apiserver", now, LIFETIME),
        CertificateProfile::Client(client) => parameters(client.name, now, LIFETIME),
    };
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    params.use_authority_key_identifier_extension = true;
    match profile {
        CertificateProfile::Server(names) => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.subject_alt_names = alternative_names(names)?;
        }
        CertificateProfile::Client(client) => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            if let Some(group) = client.group {
                let name = &mut params.distinguished_name;
                name.push(DnType::OrganizationName, group);
            }
        }
    }
    let certificate = params
        .signed_by(key, issuer)
        .context("cannot sign a certificate")?;
    Ok(certificate.pem())
}

fn parameters(common_name: &str, now: Timestamp, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    // Valid from one day ago, for clients whose clock is behind.
    let since_epoch = now.saturating_duration_since(Timestamp::default());
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch.saturating_sub(DAY);
    params.not_after = epoch + since_epoch.saturating_add(lifetime);
    params
}

fn alternative_names(names: &ServerCertificateNames) -> Result<Vec<SanType>> {
    let addresses = names.addresses.iter().map(|&it| SanType::IpAddress(it));
    let mut all: Vec<SanType> = addresses.collect();
    for host in &names.hosts {
        let name = host.as_str().try_into();
        all.push(SanType::DnsName(name.with_context(|| {
            format!("{host} cannot be a name in a certificate")
        })?));
    }
    Ok(all)
}

/// Why an existing certificate cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CertificateProblem {
    /// Unusable; the user has to replace or remove it.
    Broken(String),
    /// Expires soon or lacks names; a new certificate can be issued for the same key.
    Renew,
}

fn broken<T>(text: impl Into<String>) -> Result<T, CertificateProblem> {
    Err(CertificateProblem::Broken(text.into()))
}

fn read(der: &[u8]) -> Result<X509Certificate<'_>, CertificateProblem> {
    match X509Certificate::from_der(der) {
        Ok((_, certificate)) => Ok(certificate),
        Err(_) => broken("is no certificate"),
    }
}

fn expiry(certificate: &X509Certificate<'_>) -> Timestamp {
    Timestamp::from_unix(certificate.validity().not_after.timestamp(), 0)
}

fn check_key(certificate: &X509Certificate<'_>, key: &KeyPair) -> Result<(), CertificateProblem> {
    let public = &certificate.public_key().subject_public_key.data;
    match **public == *key.public_key_raw() {
        true => Ok(()),
        false => broken("is the certificate of another key"),
    }
}

/// Checks that a CA certificate matches its key and has not expired.
pub(super) fn check_authority(
    der: &[u8],
    key: &KeyPair,
    now: Timestamp,
) -> Result<(), CertificateProblem> {
    let certificate = read(der)?;
    check_key(&certificate, key)?;
    if !certificate.is_ca() {
        return broken("is not the certificate of an authority");
    }
    let expiry = expiry(&certificate);
    match expiry <= now {
        true => broken(format!("expired at {}", expiry.rfc3339())),
        false => Ok(()),
    }
}

/// Checks key, issuer, expiry and names of a signed certificate.
pub(super) fn check_signed(
    der: &[u8],
    key: &KeyPair,
    authority: &[u8],
    profile: CertificateProfile<'_>,
    now: Timestamp,
) -> Result<(), CertificateProblem> {
    let certificate = read(der)?;
    check_key(&certificate, key)?;
    let authority = read(authority)?;
    if certificate
        .verify_signature(Some(authority.public_key()))
        .is_err()
    {
        return broken("is not signed by ca.crt");
    }
    let is_old = expiry(&certificate) <= now.saturating_add(RENEW_BEFORE_EXPIRY);
    let is_short = match profile {
        CertificateProfile::Server(names) => !covers(&certificate, names),
        CertificateProfile::Client(_) => false,
    };
    match is_old || is_short {
        true => Err(CertificateProblem::Renew),
        false => Ok(()),
    }
}

fn covers(certificate: &X509Certificate<'_>, names: &ServerCertificateNames) -> bool {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return false;
    };
    let held = &extension.value.general_names;
    let has_host = |host: &String| {
        let is_host = |it: &GeneralName<'_>| matches!(it, GeneralName::DNSName(own) if own == host);
        held.iter().any(is_host)
    };
    let has_address = |address: &IpAddr| {
        let bytes = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let is_address =
            |it: &GeneralName<'_>| matches!(it, GeneralName::IPAddress(own) if *own == bytes);
        held.iter().any(is_address)
    };
    names.hosts.iter().all(has_host) && names.addresses.iter().all(has_address)
}
