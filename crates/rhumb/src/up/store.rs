//! Which store a server keeps its objects in.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use rhumb_store::Store;
use rhumb_store::embedded::{self, Embedded};
use rhumb_store::etcd::{self, ClientCertificate, Etcd, Tls};

use super::Flags;

/// The store, and what to call it.
pub(super) async fn open(flags: &Flags, directory: &Path) -> Result<(Arc<dyn Store>, String)> {
    if flags.etcd_servers.is_empty() {
        let path = directory.join("store");
        let store = Embedded::open(&path, embedded::Options::default()).await?;
        return Ok((Arc::new(store), "embedded store".to_owned()));
    }
    let mut options = etcd::Options::new(flags.etcd_servers.iter().map(String::as_str));
    options.tls = tls(flags);
    let store = Etcd::connect(options).await?;
    Ok((
        Arc::new(store),
        format!("etcd at {}", flags.etcd_servers.join(", ")),
    ))
}

fn tls(flags: &Flags) -> Option<Tls> {
    let client = match (&flags.etcd_certfile, &flags.etcd_keyfile) {
        (Some(certificate), Some(key)) => Some(ClientCertificate {
            cert_file: certificate.clone(),
            key_file: key.clone(),
        }),
        _ => None,
    };
    Some(Tls {
        ca_file: flags.etcd_cafile.clone()?,
        client,
        server_name: None,
    })
}
