//! Child processes that are killed on drop.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const START_TIME_MAX: Duration = Duration::from_secs(120);
const LOG_LINES_SHOWN: usize = 15;

/// A child process and its log file.
#[derive(Debug)]
pub(super) struct ChildProcess {
    child: Child,
    log: PathBuf,
}

impl ChildProcess {
    pub(super) fn start(command: &mut Command, log: PathBuf) -> Result<Self> {
        let output = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        Ok(Self { child, log })
    }

    /// Waits until `is_ready` returns true; fails early if the process exits.
    pub(super) fn wait(&mut self, mut is_ready: impl FnMut(&str) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !is_ready(&self.output()) {
            if let Some(status) = self.child.try_wait()? {
                bail!("ended with {status}:\n{}", self.end_of_output());
            }
            if begun.elapsed() > START_TIME_MAX {
                bail!("is not ready in time:\n{}", self.end_of_output());
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn end_of_output(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Fails if the process has already exited, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a file that only the owner can read.
pub(super) fn write(path: &Path, content: &str) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
