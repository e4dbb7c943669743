//! Starts kube-scheduler or `rhumb scheduler` for a server.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rhumb_etcd_harness::free_ports;
use tempfile::TempDir;

use super::process::ChildProcess;
use super::{rhumb, tool};

/// A scheduler process that is killed on drop.
#[derive(Debug)]
pub struct SchedulerProcess {
    _process: ChildProcess,
    _directory: TempDir,
}

/// Starts the kube-scheduler that is built from its Go module.
pub fn kube_scheduler(kubeconfig: &Path) -> Result<SchedulerProcess> {
    let directory = tempfile::tempdir()?;
    let [port] = free_ports()?;
    let mut command = Command::new(tool("RHUMB_TEST_KUBE_SCHEDULER", "kube-scheduler")?);
    for flag in [
        "--kubeconfig",
        "--authentication-kubeconfig",
        "--authorization-kubeconfig",
    ] {
        command.arg(flag).arg(kubeconfig);
    }
    command.args(["--secure-port", &port.to_string(), "--leader-elect=false"]);
    command.arg("--cert-dir").arg(directory.path());
    start(command, directory, "Serving securely").context("failed to start kube-scheduler")
}

/// Starts `rhumb scheduler`.
pub fn rhumb_scheduler(kubeconfig: &Path) -> Result<SchedulerProcess> {
    let mut command = Command::new(rhumb::binary()?);
    command.arg("scheduler").arg("--kubeconfig").arg(kubeconfig);
    command.args(["--leader-elect=false", "--metrics-address="]);
    start(command, tempfile::tempdir()?, "schedul").context("failed to start rhumb scheduler")
}

fn start(mut command: Command, directory: TempDir, ready_text: &str) -> Result<SchedulerProcess> {
    let mut process = ChildProcess::start(&mut command, directory.path().join("log"))?;
    process.wait(|log| log.contains(ready_text))?;
    Ok(SchedulerProcess {
        _process: process,
        _directory: directory,
    })
}
