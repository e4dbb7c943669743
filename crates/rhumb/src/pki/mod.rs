//! The certificates and keys of a data directory, in `pki/`.
//!
//! [`open`] creates missing files, keeps existing ones, and renews certificates that are about to expire with their
//! existing key. File names are those of kubeadm, so that files of another cluster can be reused:
//!
//! | files | purpose |
//! |---|---|
//! | `ca.crt`, `ca.key` | the cluster CA |
//! | `apiserver.crt`, `apiserver.key` | serving certificate of the API server |
//! | `admin.crt`, `admin.key` | client certificate of the administrator |
//! | `controller-manager.crt`, `controller-manager.key` | client certificate of `rhumb controllers` |
//! | `sa.key`, `sa.pub` | key pair that signs service account tokens |

mod certificate;
mod certificate_files;
mod files;
mod kubeconfig;
mod names;
mod sec1;

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use rcgen::{Issuer, KeyPair};
use rhumb_auth::token::SigningKey;
use rhumb_meta::Timestamp;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub(crate) use kubeconfig::{ADMIN_KUBECONFIG, write_kubeconfigs};
pub(crate) use names::{ServerCertificateNames, host_name};

use certificate::{CertificateProfile, ClientSubject};
use certificate_files::CertificateFiles;

const ADMIN_SUBJECT: ClientSubject = ClientSubject {
    name: "kubernetes-admin",
    group: Some(rhumb_auth::group::MASTERS),
};
const CONTROLLER_MANAGER_SUBJECT: ClientSubject = ClientSubject {
    name: rhumb_auth::name::CONTROLLER_MANAGER,
    group: None,
};

const SCHEDULER_SUBJECT: ClientSubject = ClientSubject {
    name: rhumb_auth::name::SCHEDULER,
    group: None,
};

/// The CA, the certificates and the token signing key of a server.
///
/// Debug output contains no keys.
pub(crate) struct ClusterPki {
    /// The CA certificate, for clients and for the verification of client certificates.
    pub(crate) ca_pem: String,
    pub(crate) ca: CertificateDer<'static>,
    pub(crate) serving: CertificateAndKey,
    pub(crate) admin: CertificateAndKey,
    /// Client certificate of `rhumb controllers`.
    pub(crate) controllers: CertificateAndKey,
    /// Client certificate of `rhumb scheduler`.
    pub(crate) scheduler: CertificateAndKey,
    pub(crate) service_account_key: SigningKey,
}

/// A certificate and its private key.
pub(crate) struct CertificateAndKey {
    pub(crate) certificate_pem: String,
    pub(crate) certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl CertificateAndKey {
    /// The private key for TLS.
    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }

    /// The private key for a kubeconfig.
    pub(crate) fn client_key_pem(&self) -> String {
        sec1::client_key_pem(&self.key)
    }
}

impl fmt::Debug for CertificateAndKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(hidden)")
    }
}

impl fmt::Debug for ClusterPki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pki({:?})", self.service_account_key)
    }
}

/// Reads the certificates and keys in `data_dir/pki`, and creates or renews them where needed.
pub(crate) fn open(
    data_dir: &Path,
    names: &ServerCertificateNames,
    now: Timestamp,
) -> Result<ClusterPki> {
    let directory = data_dir.join("pki");
    files::create_directory(&directory)?;

    let authority = CertificateFiles::new(&directory, "ca").open_authority(now)?;
    let ca = authority.certificate.clone();
    let ca_pem = authority.certificate_pem.clone();
    let issuer = Issuer::from_ca_cert_der(&ca, authority.key)
        .with_context(|| format!("{}: cannot sign", directory.join("ca.crt").display()))?;

    let open = |name, profile| {
        CertificateFiles::new(&directory, name).open_signed(&ca, &issuer, profile, now)
    };
    Ok(ClusterPki {
        serving: open("apiserver", CertificateProfile::Server(names))?,
        admin: open("admin", CertificateProfile::Client(ADMIN_SUBJECT))?,
        controllers: open(
            "controller-manager",
            CertificateProfile::Client(CONTROLLER_MANAGER_SUBJECT),
        )?,
        scheduler: open("scheduler", CertificateProfile::Client(SCHEDULER_SUBJECT))?,
        service_account_key: open_service_account_key(&directory)?,
        ca,
        ca_pem,
    })
}

fn open_service_account_key(directory: &Path) -> Result<SigningKey> {
    let path = directory.join("sa.key");
    let text = match files::read(&path)? {
        Some(text) => text,
        None => {
            let key = KeyPair::generate().context("cannot make a key")?;
            // The private key is written last, so that its existence implies that of the public key.
            files::write_public(&directory.join("sa.pub"), &key.public_key_pem())?;
            files::write_private(&path, &key.serialize_pem())?;
            key.serialize_pem()
        }
    };
    read_signing_key(&text).with_context(|| advice(&path, "tokens of service accounts"))
}

/// Parses the PEM private key that signs service account tokens.
pub(crate) fn read_signing_key(text: &str) -> Result<SigningKey> {
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).context("no private key in PEM")?;
    Ok(match &key {
        PrivateKeyDer::Pkcs1(key) => SigningKey::from_pkcs1(key.secret_pkcs1_der())?,
        key => SigningKey::from_pkcs8(key.secret_der())?,
    })
}

/// Error context: the file and how to recover.
fn advice(path: &Path, what: &str) -> String {
    format!(
        "{}: bring back a good file, or remove it to have a new one made, which ends all {what}",
        path.display()
    )
}

#[cfg(test)]
mod tests;
