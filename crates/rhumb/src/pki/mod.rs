//! The certificates and keys of a data directory, in `pki/`.
//!
//! What is missing is made, what is there is kept, and what is about to expire is renewed with the key it has.
//! The files are named as kubeadm names them, so that those of another cluster can be brought along:
//!
//! | files | whose |
//! |---|---|
//! | `ca.crt`, `ca.key` | the authority that signs all others, and that clients trust |
//! | `apiserver.crt`, `apiserver.key` | the server |
//! | `admin.crt`, `admin.key` | the one who may do everything |
//! | `controller-manager.crt`, `controller-manager.key` | controllers that run apart |
//! | `sa.key`, `sa.pub` | what tokens of service accounts are signed with |

mod certificate;
mod files;
mod kubeconfig;
mod names;
mod pair;

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use rcgen::{Issuer, KeyPair};
use rhumb_auth::token::SigningKey;
use rhumb_meta::Timestamp;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub(crate) use kubeconfig::{ADMIN_KUBECONFIG, write_kubeconfigs};
pub(crate) use names::{ServerNames, host_name};

use certificate::{Client, Profile};
use pair::Pair;

const ADMIN: Client = Client {
    name: "kubernetes-admin",
    group: Some(rhumb_auth::group::MASTERS),
};
const CONTROLLERS: Client = Client {
    name: rhumb_auth::name::CONTROLLER_MANAGER,
    group: None,
};

const SCHEDULER: Client = Client {
    name: rhumb_auth::name::SCHEDULER,
    group: None,
};

/// All that a server needs to show who it is, to know its clients and to sign tokens.
///
/// Its Debug form shows no key.
pub(crate) struct Pki {
    /// What clients trust, and what client certificates are checked against.
    pub(crate) ca_pem: String,
    pub(crate) ca: CertificateDer<'static>,
    pub(crate) serving: Identity,
    pub(crate) admin: Identity,
    /// Controllers that run apart.
    pub(crate) controllers: Identity,
    /// A scheduler that runs apart.
    pub(crate) scheduler: Identity,
    pub(crate) service_account_key: SigningKey,
}

/// A certificate and its private key.
pub(crate) struct Identity {
    pub(crate) certificate_pem: String,
    pub(crate) certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Identity {
    /// The private key for TLS.
    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }

    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(hidden)")
    }
}

impl fmt::Debug for Pki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pki({:?})", self.service_account_key)
    }
}

/// Opens the certificates and keys in `data_dir/pki`, and makes or renews what has to be.
pub(crate) fn open(data_dir: &Path, names: &ServerNames, now: Timestamp) -> Result<Pki> {
    let directory = data_dir.join("pki");
    files::create_directory(&directory)?;

    let authority = Pair::new(&directory, "ca").open_authority(now)?;
    let ca = authority.certificate.clone();
    let ca_pem = authority.certificate_pem.clone();
    let issuer = Issuer::from_ca_cert_der(&ca, authority.key)
        .with_context(|| format!("{}: cannot sign", directory.join("ca.crt").display()))?;

    let open = |name, profile| Pair::new(&directory, name).open_signed(&ca, &issuer, profile, now);
    Ok(Pki {
        serving: open("apiserver", Profile::Server(names))?,
        admin: open("admin", Profile::Client(ADMIN))?,
        controllers: open("controller-manager", Profile::Client(CONTROLLERS))?,
        scheduler: open("scheduler", Profile::Client(SCHEDULER))?,
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
            // The private key comes last: with it, everything is there.
            files::write_public(&directory.join("sa.pub"), &key.public_key_pem())?;
            files::write_private(&path, &key.serialize_pem())?;
            key.serialize_pem()
        }
    };
    read_signing_key(&text).with_context(|| advice(&path, "tokens of service accounts"))
}

/// A private key in PEM that tokens are signed with.
pub(crate) fn read_signing_key(text: &str) -> Result<SigningKey> {
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).context("no private key in PEM")?;
    Ok(match &key {
        PrivateKeyDer::Pkcs1(key) => SigningKey::from_pkcs1(key.secret_pkcs1_der())?,
        key => SigningKey::from_pkcs8(key.secret_der())?,
    })
}

/// Which file it is about, and what to do about it.
fn advice(path: &Path, what: &str) -> String {
    format!(
        "{}: bring back a good file, or remove it to have a new one made, which ends all {what}",
        path.display()
    )
}

#[cfg(test)]
mod tests;
