//! A rhumb server, started with `rhumb up`. No controllers run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rhumb_etcd_harness::free_ports;
use tempfile::TempDir;

use super::process::ChildProcess;
use super::{TestServer, admission_configuration, target};

const ISSUER: &str = "https://kubernetes.default.svc";

#[derive(Debug)]
pub(super) struct RhumbServer {
    kubeconfig: PathBuf,
    _process: ChildProcess,
    _directory: TempDir,
}

impl TestServer for RhumbServer {
    fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

pub(super) fn start() -> Result<RhumbServer> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("data");
    let [port] = free_ports()?;
    let mut rhumb = Command::new(binary()?);
    rhumb.arg("up").arg("--data-dir").arg(&data);
    rhumb.args(["--secure-port", &port.to_string()]);
    // Configured like kube-apiserver: the same token issuer, and no controllers that change objects.
    rhumb.args(["--service-account-issuer", ISSUER, "--controllers="]);
    rhumb
        .arg("--admission-control-config-file")
        .arg(admission_configuration());
    let mut process = ChildProcess::start(&mut rhumb, directory.path().join("rhumb.log"))?;
    let kubeconfig = data.join("admin.kubeconfig");
    process
        .wait(|log| log.contains("ready") && kubeconfig.is_file())
        .context("failed to start rhumb")?;
    Ok(RhumbServer {
        kubeconfig,
        _process: process,
        _directory: directory,
    })
}

/// The binary named by the environment variable, or the newest build.
pub(super) fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("RHUMB_TEST_RHUMB") {
        return Ok(path.into());
    }
    let builds = ["debug", "release", "dist"].map(|profile| target().join(profile).join("rhumb"));
    let built = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).ok();
    let newest = builds.into_iter().filter(|path| path.is_file());
    match newest.max_by_key(built) {
        Some(path) => Ok(path),
        None => bail!("no rhumb: build it, or say in RHUMB_TEST_RHUMB where it is"),
    }
}
