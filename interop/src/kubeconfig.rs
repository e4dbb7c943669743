//! Reading and writing kubeconfig files.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

/// The first cluster and user of a kubeconfig, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kubeconfig {
    /// Such as `https://127.0.0.1:6443`.
    pub server: String,
    pub authority_pem: Vec<u8>,
    /// Client certificates and key of the user, if any.
    pub identity_pem: Option<(Vec<u8>, Vec<u8>)>,
    pub token: Option<String>,
    /// Default namespace of kubectl; written but not read.
    pub namespace: Option<String>,
}

#[derive(Deserialize)]
struct KubeconfigFile {
    clusters: Vec<NamedClusterEntry>,
    users: Vec<NamedUserEntry>,
}

#[derive(Deserialize)]
struct NamedClusterEntry {
    cluster: ClusterEntry,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ClusterEntry {
    server: String,
    certificate_authority_data: Option<String>,
}

#[derive(Deserialize)]
struct NamedUserEntry {
    user: UserEntry,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct UserEntry {
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    token: Option<String>,
}

impl Kubeconfig {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not a valid kubeconfig", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let file: KubeconfigFile = serde_saphyr::from_str(text)?;
        let cluster = file
            .clusters
            .into_iter()
            .next()
            .context("`clusters` is empty")?;
        let user = file
            .users
            .into_iter()
            .next()
            .context("`users` is empty")?
            .user;
        let decode = |data: Option<String>| data.map(|data| STANDARD.decode(data)).transpose();
        let certificate = decode(user.client_certificate_data)?;
        let key = decode(user.client_key_data)?;
        Ok(Self {
            server: cluster.cluster.server.trim_end_matches('/').to_owned(),
            authority_pem: decode(cluster.cluster.certificate_authority_data)?.unwrap_or_default(),
            identity_pem: certificate.zip(key),
            token: user.token,
            namespace: None,
        })
    }

    /// Writes a file that kubectl can use, as JSON, which is valid YAML.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut user = json!({});
        if let Some((certificate, key)) = &self.identity_pem {
            user["client-certificate-data"] = STANDARD.encode(certificate).into();
            user["client-key-data"] = STANDARD.encode(key).into();
        }
        if let Some(token) = &self.token {
            user["token"] = token.as_str().into();
        }
        let mut context = json!({"cluster": "test", "user": "admin"});
        if let Some(namespace) = &self.namespace {
            context["namespace"] = namespace.as_str().into();
        }
        let file = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {
                "server": self.server,
                "certificate-authority-data": STANDARD.encode(&self.authority_pem),
            }}],
            "users": [{"name": "admin", "user": user}],
            "contexts": [{"name": "test", "context": context}],
            "current-context": "test",
        });
        let text = serde_json::to_string_pretty(&file)?;
        std::fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_kubeconfig_is_read_back() {
        let kubeconfig = Kubeconfig {
            server: "https://127.0.0.1:1".into(),
            authority_pem: b"ca".to_vec(),
            identity_pem: Some((b"certificate".to_vec(), b"key".to_vec())),
            token: Some("secret".into()),
            namespace: None,
        };
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("admin.kubeconfig");
        kubeconfig.write(&path).expect("written");
        assert_eq!(Kubeconfig::read(&path).expect("read"), kubeconfig);
    }
}
