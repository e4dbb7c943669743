//! The agent process of a node.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use crate::network_namespace::NetworkNamespace;

/// Killed on drop.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    node: Arc<NetworkNamespace>,
    kubeconfig: PathBuf,
    log: PathBuf,
    process: Option<Child>,
}

impl AgentProcess {
    pub(crate) fn start(
        node: &Arc<NetworkNamespace>,
        kubeconfig: &Path,
        log: PathBuf,
    ) -> AgentProcess {
        let mut agent = AgentProcess {
            node: node.clone(),
            kubeconfig: kubeconfig.to_owned(),
            log,
            process: None,
        };
        agent.start_again();
        agent
    }

    /// Starts it again after it was terminated or killed.
    pub(crate) fn start_again(&mut self) {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.expect("a log");
        let mut command = command(&self.node, &self.kubeconfig);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process = self.node.inside(|| command.spawn());
        self.process = Some(process.expect("the agent starts"));
    }

    /// Kills it; its rules stay in the kernel.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Fails if the process has exited.
    pub(crate) fn must_run(&mut self) {
        if let Some(process) = &mut self.process {
            let ended = process.try_wait().expect("its state");
            assert!(ended.is_none(), "the agent ended: {}", self.log());
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(node: &NetworkNamespace, kubeconfig: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhumb"));
    command
        .args(["agent", "--node-name", &node.name, "--kubeconfig"])
        .arg(kubeconfig);
    command
}

/// Runs the agent until it exits, after `change` on the starting thread.
pub(crate) fn run_agent(
    node: &NetworkNamespace,
    kubeconfig: &Path,
    change: impl FnOnce(&mut Command) + Send,
) -> Output {
    let mut command = command(node, kubeconfig);
    let output = node.inside(|| {
        change(&mut command);
        command.output()
    });
    output.expect("the agent starts")
}
