//! Network namespaces for the time of a measurement.

use std::fs::File;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace. It goes with this value.
#[derive(Debug)]
pub(super) struct NetworkNamespace {
    name: String,
}

impl NetworkNamespace {
    /// Its loopback is up, and there is nothing else.
    pub(super) fn new(purpose: &str) -> Result<Self> {
        let name = format!("rhumb-bench-{}-{purpose}", std::process::id());
        carry_out(Command::new("ip").args(["netns", "add", &name]))
            .context("no network namespace can be made: this needs root and iproute2")?;
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// `ip` with these words, inside.
    pub(super) fn ip(&self, words: &str) -> Result<()> {
        let mut ip = Command::new("ip");
        ip.args(["-n", &self.name]).args(words.split_whitespace());
        carry_out(&mut ip)
    }

    /// A command that runs inside.
    pub(super) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// A thread of this process that is inside: sockets that it opens stay there.
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

/// Waits for a thread that may have failed.
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
