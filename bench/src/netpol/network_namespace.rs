//! Temporary Linux network namespaces.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::de::DeserializeOwned;

/// Network namespace, deleted on drop.
#[derive(Debug)]
pub(super) struct NetworkNamespace {
    name: String,
}

impl NetworkNamespace {
    /// Creates a namespace with only the loopback interface.
    pub(super) fn new(purpose: &str) -> Result<Self> {
        let name = format!("rhumb-bench-{}-{purpose}", std::process::id());
        carry_out(Command::new("ip").args(["netns", "add", &name]))
            .context("failed to create a network namespace: root and iproute2 are required")?;
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these arguments in the namespace.
    pub(super) fn ip(&self, words: &str) -> Result<()> {
        let mut ip = Command::new("ip");
        ip.args(["-n", &self.name]).args(words.split_whitespace());
        carry_out(&mut ip)
    }

    /// Runs a part of the benchmark in a child process in the namespace, and returns its result. `part` is its hidden flag.
    pub(super) fn measure<T: DeserializeOwned>(
        &self,
        part: &str,
        rhumb: &Path,
        rounds: usize,
    ) -> Result<T> {
        let output = self
            .command(std::env::current_exe()?)
            .args(["netpol", part, "--rounds", &rounds.to_string()])
            .arg("--rhumb")
            .arg(rhumb)
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "the measuring process failed");
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Command that runs in the namespace.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Spawns a thread in the namespace: sockets that it opens belong to the namespace.
    pub(super) fn thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<JoinHandle<Result<T>>> {
        let place = File::open(format!("/run/netns/{}", self.name))?;
        Ok(std::thread::spawn(move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&place), kind)?;
            work()
        }))
    }
}

impl Drop for NetworkNamespace {
    fn drop(&mut self) {
        let _ = carry_out(Command::new("ip").args(["netns", "del", &self.name]));
    }
}

/// Joins a thread and returns its result; a panic becomes an error.
pub(super) fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}

pub(super) fn carry_out(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
