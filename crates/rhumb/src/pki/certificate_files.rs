//! A certificate file and its key file.
//!
//! The key is written first. A key without a certificate is left by a crash, and the certificate is created; a
//! certificate without a key is an error that the user has to resolve.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rcgen::{Issuer, KeyPair};
use rhumb_meta::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::certificate::{self, CertificateProblem, CertificateProfile};
use super::{CertificateAndKey, files};

pub(super) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl CertificateFiles {
    pub(super) fn new(directory: &Path, name: &str) -> Self {
        CertificateFiles {
            certificate: directory.join(format!("{name}.crt")),
            key: directory.join(format!("{name}.key")),
        }
    }

    pub(super) fn open_authority(&self, now: Timestamp) -> Result<CertificateAndKey> {
        let check = |der: &[u8], key: &KeyPair| certificate::check_authority(der, key, now);
        let make = |key: &KeyPair| certificate::make_authority(key, now);
        let remedy = "bring back a good file, or remove ca.crt and ca.key and all that they signed, \
            after which all clients need new credentials";
        self.open(check, make, remedy)
    }

    pub(super) fn open_signed(
        &self,
        authority: &[u8],
        issuer: &Issuer<'_, KeyPair>,
        profile: CertificateProfile<'_>,
        now: Timestamp,
    ) -> Result<CertificateAndKey> {
        let check = |der: &[u8], key: &KeyPair| {
            certificate::check_signed(der, key, authority, profile, now)
        };
        let make = |key: &KeyPair| certificate::make_signed(key, issuer, profile, now);
        self.open(check, make, "remove it and its key to have new ones made")
    }

    fn open(
        &self,
        check: impl Fn(&[u8], &KeyPair) -> Result<(), CertificateProblem>,
        make: impl Fn(&KeyPair) -> Result<String>,
        remedy: &str,
    ) -> Result<CertificateAndKey> {
        let certificate = files::read(&self.certificate)?;
        let key = match (files::read(&self.key)?, &certificate) {
            (Some(text), _) => KeyPair::from_pem(&text).ok().with_context(|| {
                format!(
                    "{}: is no private key in PKCS#8 PEM; {remedy}",
                    self.key.display()
                )
            })?,
            (None, Some(_)) => bail!(
                "{}: is missing, while {} is there; {remedy}",
                self.key.display(),
                self.certificate.display()
            ),
            (None, None) => self.make_key()?,
        };
        if let Some(pem) = certificate {
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok();
            let problem = match &der {
                Some(der) => check(der, &key).err(),
                None => Some(CertificateProblem::Broken(
                    "is no certificate in PEM".to_owned(),
                )),
            };
            match (der, problem) {
                (Some(certificate), None) => {
                    return Ok(CertificateAndKey {
                        certificate_pem: pem,
                        certificate,
                        key,
                    });
                }
                (_, Some(CertificateProblem::Broken(problem))) => {
                    bail!("{}: {problem}; {remedy}", self.certificate.display())
                }
                (_, Some(CertificateProblem::Renew) | None) => {}
            }
        }
        let certificate_pem = make(&key)?;
        files::write_public(&self.certificate, &certificate_pem)?;
        Ok(CertificateAndKey {
            certificate: CertificateDer::from_pem_slice(certificate_pem.as_bytes())
                .context("a new certificate cannot be read")?,
            certificate_pem,
            key,
        })
    }

    fn make_key(&self) -> Result<KeyPair> {
        let key = KeyPair::generate().context("cannot make a key")?;
        files::write_private(&self.key, &key.serialize_pem())?;
        Ok(key)
    }
}
