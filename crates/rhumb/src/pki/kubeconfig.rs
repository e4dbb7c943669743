//! The file by which kubectl finds the server and shows who it is.

use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Pki, files};

/// Writes a kubeconfig for the one who may do everything; `server` is the URL of the server.
///
/// A file that already says the same is left alone.
pub(crate) fn write_kubeconfig(path: &Path, pki: &Pki, server: &str) -> Result<()> {
    let text = kubeconfig(pki, server);
    if files::read(path)?.as_deref() == Some(&text) {
        return Ok(());
    }
    files::write_private(path, &text)
}

fn kubeconfig(pki: &Pki, server: &str) -> String {
    let ca = STANDARD.encode(&pki.ca_pem);
    let certificate = STANDARD.encode(&pki.admin.certificate_pem);
    let key = STANDARD.encode(pki.admin.key_pem());
    let server = serde_json::Value::from(server);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: rhumb
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kubernetes-admin@rhumb
  context:
    cluster: rhumb
    user: kubernetes-admin
current-context: kubernetes-admin@rhumb
preferences: {{}}
"
    )
}
