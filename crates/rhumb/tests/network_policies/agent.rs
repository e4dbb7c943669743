//! The built agent on a node.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use crate::site::Site;

/// Ends with this value.
#[derive(Debug)]
pub(crate) struct Agent {
    node: Arc<Site>,
    kubeconfig: PathBuf,
    log: PathBuf,
    process: Option<Child>,
}

impl Agent {
    pub(crate) fn start(node: &Arc<Site>, kubeconfig: &Path, log: PathBuf) -> Agent {
        let mut agent = Agent {
            node: node.clone(),
            kubeconfig: kubeconfig.to_owned(),
            log,
            process: None,
        };
        agent.start_again();
        agent
    }

    /// After it was ended or killed.
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

    /// Without a warning; what it put into the kernel stays.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Fails if it has ended by itself.
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

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(node: &Site, kubeconfig: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhumb"));
    command
        .args(["agent", "--node-name", &node.name, "--kubeconfig"])
        .arg(kubeconfig);
    command
}

/// Runs the agent to its end, changed on the thread that starts it.
pub(crate) fn run_agent(
    node: &Site,
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
