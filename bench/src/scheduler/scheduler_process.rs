//! Scheduler process (rhumb or kube-scheduler) that can be paused while pods are created.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::servers::{self, BenchServer};

/// Client QPS and burst as in scheduler_perf, so that client-side rate limits do not matter.
const REQUESTS_PER_SECOND: u32 = 5000;

pub(super) enum SchedulerProgram {
    Rhumb {
        program: PathBuf,
        flags: Vec<String>,
    },
    Kubernetes(PathBuf),
}

pub(super) struct SchedulerProcess {
    process: Child,
    log: PathBuf,
}

impl SchedulerProcess {
    /// Starts a scheduler with its default profile for this server.
    pub(super) fn start(program: &SchedulerProgram, server: &BenchServer<'_>) -> Result<Self> {
        let kubeconfig = server.kubeconfig()?;
        let directory = server.directory();
        let mut command = match program {
            SchedulerProgram::Rhumb { program, flags } => {
                let mut command = Command::new(program);
                command.arg("scheduler").arg("--kubeconfig").arg(kubeconfig);
                // A paused scheduler would lose its lease; kube-scheduler is configured alike.
                command.args(["--leader-elect=false", "--metrics-address="]);
                command.args(flags);
                command
            }
            SchedulerProgram::Kubernetes(program) => {
                let configuration = configure(directory, &kubeconfig)?;
                let mut command = Command::new(program);
                command.arg("--config").arg(configuration);
                command.arg("--secure-port=0");
                command
            }
        };
        let log = directory.join("scheduler.log");
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        Ok(Self { process, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Stops the process (SIGSTOP); the server keeps filling its watch connections.
    pub(super) fn hold(&self) -> Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::STOP)
            .context("failed to pause the scheduler")
    }

    pub(super) fn go_on(&self) -> Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::CONT)
            .context("failed to resume the scheduler")
    }

    /// Returns an error with the end of the log if the process has exited.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.process.try_wait()? {
            let log = servers::last_lines(&self.log);
            bail!("{log}\nthe scheduler exited with {status}");
        }
        Ok(())
    }
}

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        // The process has no state worth a clean shutdown.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes a kube-scheduler configuration: defaults except client limits and no leader election.
fn configure(directory: &Path, kubeconfig: &Path) -> Result<PathBuf> {
    let configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {
            "kubeconfig": kubeconfig,
            "qps": REQUESTS_PER_SECOND,
            "burst": REQUESTS_PER_SECOND,
        },
    });
    let path = directory.join("scheduler.json");
    fs::write(&path, configuration.to_string())?;
    Ok(path)
}
