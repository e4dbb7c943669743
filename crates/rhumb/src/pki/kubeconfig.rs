//! The files by which clients find the server and show who they are.

use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{ADMIN, CONTROLLERS, Identity, Pki, SCHEDULER, files};

pub(crate) const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";

/// Writes the kubeconfigs of a data directory, of the one who may do everything and of controllers and a scheduler that
/// run apart; `server` is the URL of the server. A file that already says the same is left alone.
pub(crate) fn write_kubeconfigs(directory: &Path, pki: &Pki, server: &str) -> Result<()> {
    let files = [
        (ADMIN_KUBECONFIG, ADMIN.name, &pki.admin),
        (
            "controller-manager.kubeconfig",
            CONTROLLERS.name,
            &pki.controllers,
        ),
        ("scheduler.kubeconfig", SCHEDULER.name, &pki.scheduler),
    ];
    for (file, user, identity) in files {
        let path = directory.join(file);
        let text = kubeconfig(&pki.ca_pem, user, identity, server);
        if files::read(&path)?.as_deref() != Some(&text) {
            files::write_private(&path, &text)?;
        }
    }
    Ok(())
}

fn kubeconfig(ca_pem: &str, user: &str, identity: &Identity, server: &str) -> String {
    let ca = STANDARD.encode(ca_pem);
    let certificate = STANDARD.encode(&identity.certificate_pem);
    let key = STANDARD.encode(identity.key_pem());
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
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {user}@rhumb
  context:
    cluster: rhumb
    user: {user}
current-context: {user}@rhumb
preferences: {{}}
"
    )
}
