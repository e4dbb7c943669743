//! Opens the store of the server: the embedded one, or etcd.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use rhumb_store::Store;
use rhumb_store::embedded::{self, EmbeddedStore};
use rhumb_store::etcd::{self, ClientCertificateFiles, EtcdStore, EtcdTlsOptions};

use super::UpFlags;

/// The store, and its description for the console.
pub(super) async fn open(flags: &UpFlags, directory: &Path) -> Result<(Arc<dyn Store>, String)> {
    if flags.etcd_servers.is_empty() {
        let path = directory.join(crate::store::STORE_DIRECTORY);
        let store = EmbeddedStore::open(&path, embedded::EmbeddedOptions::default()).await?;
        return Ok((Arc::new(store), "embedded store".to_owned()));
    }
    let mut options = etcd::EtcdOptions::new(flags.etcd_servers.iter().map(String::as_str));
    options.tls = tls(flags);
    let store = EtcdStore::connect(options).await?;
    Ok((
        Arc::new(store),
        format!("etcd at {}", flags.etcd_servers.join(", ")),
    ))
}

fn tls(flags: &UpFlags) -> Option<EtcdTlsOptions> {
    let client = match (&flags.etcd_certfile, &flags.etcd_keyfile) {
        (Some(certificate), Some(key)) => Some(ClientCertificateFiles {
            cert_file: certificate.clone(),
            key_file: key.clone(),
        }),
        _ => None,
    };
    Some(EtcdTlsOptions {
        ca_file: flags.etcd_cafile.clone()?,
        client,
        server_name: None,
    })
}
