//! Schedulers: upstream's and ours, each for a server of its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::process::{Process, free_ports};
use super::{rhumb, tool};

/// A scheduler that ends with its value.
#[derive(Debug)]
pub struct Scheduler {
    _process: Process,
    _directory: TempDir,
}

/// The kube-scheduler that is built from its module.
pub fn kube_scheduler(kubeconfig: &Path) -> Result<Scheduler> {
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
    start(command, directory, "Serving securely").context("kube-scheduler")
}

/// `rhumb scheduler`.
pub fn rhumb_scheduler(kubeconfig: &Path) -> Result<Scheduler> {
    let mut command = Command::new(rhumb::binary()?);
    command.arg("scheduler").arg("--kubeconfig").arg(kubeconfig);
    command.args(["--leader-elect=false", "--metrics-address="]);
    start(command, tempfile::tempdir()?, "schedul").context("rhumb scheduler")
}

fn start(mut command: Command, directory: TempDir, ready: &str) -> Result<Scheduler> {
    let mut process = Process::start(&mut command, directory.path().join("log"))?;
    process.wait(|output| output.contains(ready))?;
    Ok(Scheduler {
        _process: process,
        _directory: directory,
    })
}
