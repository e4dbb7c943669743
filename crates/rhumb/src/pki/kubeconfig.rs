//! Writes the kubeconfigs of the administrator, the controllers and the scheduler.

use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{
    ADMIN_SUBJECT, CONTROLLER_MANAGER_SUBJECT, CertificateAndKey, ClusterPki, SCHEDULER_SUBJECT,
    files,
};

pub(crate) const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";

/// Writes all kubeconfigs of a data directory; `server` is the URL of the API server. Files with the same content are not
/// rewritten.
pub(crate) fn write_kubeconfigs(directory: &Path, pki: &ClusterPki, server: &str) -> Result<()> {
    let files = [
        (ADMIN_KUBECONFIG, ADMIN_SUBJECT.name, &pki.admin),
        (
            "controller-manager.kubeconfig",
            CONTROLLER_MANAGER_SUBJECT.name,
            &pki.controllers,
        ),
        (
            "scheduler.kubeconfig",
            SCHEDULER_SUBJECT.name,
            &pki.scheduler,
        ),
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

fn kubeconfig(ca_pem: &str, user: &str, identity: &CertificateAndKey, server: &str) -> String {
    let ca = STANDARD.encode(ca_pem);
    let certificate = STANDARD.encode(&identity.certificate_pem);
    let key = STANDARD.encode(identity.client_key_pem());
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
