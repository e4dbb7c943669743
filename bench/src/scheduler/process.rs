//! A scheduler in a process of its own, which can be held while its work piles up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::servers::{self, Server};

/// What scheduler_perf gives its scheduler, so that no client limits itself.
const REQUESTS_PER_SECOND: u32 = 5000;

pub(super) enum Program {
    Rhumb {
        program: PathBuf,
        flags: Vec<String>,
    },
    Kubernetes(PathBuf),
}

pub(super) struct Scheduler {
    process: Child,
    log: PathBuf,
}

impl Scheduler {
    /// A scheduler for this server, with its default profile.
    pub(super) fn start(program: &Program, server: &Server<'_>) -> Result<Self> {
        let kubeconfig = server.kubeconfig()?;
        let directory = server.directory();
        let mut command = match program {
            Program::Rhumb { program, flags } => {
                let mut command = Command::new(program);
                command.arg("scheduler").arg("--kubeconfig").arg(kubeconfig);
                // One that is held for long would lose a lease, as the other would.
                command.args(["--leader-elect=false", "--metrics-address="]);
                command.args(flags);
                command
            }
            Program::Kubernetes(program) => {
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

    /// It does nothing until it goes on, but what it watches goes on.
    pub(super) fn hold(&self) -> Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::STOP).context("cannot hold it")
    }

    pub(super) fn go_on(&self) -> Result<()> {
        kill_process(Pid::from_child(&self.process), Signal::CONT).context("cannot let it go on")
    }

    /// An error if it is not there any more.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.process.try_wait()? {
            let log = servers::last_lines(&self.log);
            bail!("{log}\nthe scheduler ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // It is ours alone and has nothing to lose.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The configuration of a kube-scheduler: all defaults but the limits of its client and that it is alone.
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
