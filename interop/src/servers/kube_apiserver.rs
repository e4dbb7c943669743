//! A kube-apiserver with etcd. No controllers run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rcgen::KeyPair;
use rhumb_etcd_harness::{EtcdConfig, EtcdServer, free_ports};
use tempfile::TempDir;

use super::certificates::TestCertificateAuthority;
use super::process::{ChildProcess, write};
use super::{TestServer, admission_configuration, tool};
use crate::client::{RawClient, RawRequest};
use crate::kubeconfig::Kubeconfig;

#[derive(Debug)]
pub(super) struct KubeApiserver {
    kubeconfig: PathBuf,
    // Drop order: the API server stops before its etcd.
    apiserver: ChildProcess,
    _etcd: EtcdServer,
    _directory: TempDir,
}

impl TestServer for KubeApiserver {
    fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

pub(super) fn start() -> Result<KubeApiserver> {
    let directory = tempfile::tempdir()?;
    let etcd = start_etcd(directory.path()).context("failed to start etcd")?;
    let [port] = free_ports()?;
    let kubeconfig = write_credentials(directory.path(), port)?;
    let apiserver = start_apiserver(directory.path(), &etcd.endpoint(), port)?;
    let mut server = KubeApiserver {
        kubeconfig,
        apiserver,
        _etcd: etcd,
        _directory: directory,
    };
    wait_until_ready(&mut server).context("failed to start kube-apiserver")?;
    Ok(server)
}

fn start_etcd(directory: &Path) -> Result<EtcdServer> {
    let config = EtcdConfig {
        binary: tool("RHUMB_TEST_ETCD", "etcd-from-source")?.into(),
        directory: Some(directory.join("etcd")),
        ..EtcdConfig::default()
    };
    let config = config.with_arguments(&["--unsafe-no-fsync"]);
    Ok(EtcdServer::launch_blocking(config)?)
}

/// Writes keys and certificates into the directory and returns the matching kubeconfig.
fn write_credentials(directory: &Path, port: u16) -> Result<PathBuf> {
    let authority = TestCertificateAuthority::new()?;
    write(&directory.join("ca.pem"), &authority.certificate_pem)?;
    let server = authority.server()?;
    write(&directory.join("server.pem"), &server.certificate_pem)?;
    write(&directory.join("server-key.pem"), &server.key_pem)?;
    let tokens = KeyPair::generate()?;
    write(&directory.join("tokens.pem"), &tokens.public_key_pem())?;
    write(&directory.join("tokens-key.pem"), &tokens.serialize_pem())?;
    let admin = authority.user("admin", "system:masters")?;
    let path = directory.join("admin.kubeconfig");
    let kubeconfig = Kubeconfig {
        server: format!("https://127.0.0.1:{port}"),
        authority_pem: authority.certificate_pem.into_bytes(),
        identity_pem: Some((
            admin.certificate_pem.into_bytes(),
            admin.key_pem.into_bytes(),
        )),
        token: None,
        namespace: None,
    };
    kubeconfig.write(&path)?;
    Ok(path)
}

fn start_apiserver(directory: &Path, etcd: &str, port: u16) -> Result<ChildProcess> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
    let mut apiserver = Command::new(tool("RHUMB_TEST_KUBE_APISERVER", "kube-apiserver")?);
    apiserver
        .arg(format!("--etcd-servers={etcd}"))
        .arg(format!("--secure-port={port}"))
        .arg("--bind-address=127.0.0.1")
        .arg("--advertise-address=127.0.0.1")
        .arg(file("cert-dir", "certificates"))
        .arg(file("tls-cert-file", "server.pem"))
        .arg(file("tls-private-key-file", "server-key.pem"))
        .arg(file("client-ca-file", "ca.pem"))
        .arg(file("service-account-key-file", "tokens.pem"))
        .arg(file("service-account-signing-key-file", "tokens-key.pem"))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg("--service-cluster-ip-range=10.0.0.0/24")
        .arg("--authorization-mode=RBAC")
        .arg("--allow-privileged=true")
        .arg("--admission-control-config-file")
        .arg(admission_configuration())
        .arg("--endpoint-reconciler-type=none");
    ChildProcess::start(&mut apiserver, directory.join("kube-apiserver.log"))
}

fn wait_until_ready(server: &mut KubeApiserver) -> Result<()> {
    let client = RawClient::new(&Kubeconfig::read(&server.kubeconfig)?)?;
    // Runs on its own thread, because the caller may already be inside a runtime.
    let is_ready = || {
        std::thread::scope(|scope| {
            scope
                .spawn(|| readyz(&client).unwrap_or(false))
                .join()
                .unwrap_or(false)
        })
    };
    server.apiserver.wait(|_| is_ready())
}

fn readyz(client: &RawClient) -> Result<bool> {
    let request = RawRequest {
        method: "GET".into(),
        path: "/readyz".into(),
        ..RawRequest::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(client.send(&request))?.status.is_success())
}
