//! Child processes that are killed on drop.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const START_TIME_MAX: Duration = Duration::from_secs(120);
const LOG_LINES_PRINTED: usize = 15;

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
            .with_context(|| format!("failed to run {}", command.get_program().display()))?;
        Ok(Self { child, log })
    }

    /// Waits until `is_ready` returns true; fails early if the process exits.
    pub(super) fn wait(&mut self, mut is_ready: impl FnMut(&str) -> bool) -> Result<()> {
        let start = Instant::now();
        while !is_ready(&self.log_text()) {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "the process exited before it was ready ({status}); the end of its log:\n{}",
                    self.last_log_lines()
                );
            }
            if start.elapsed() > START_TIME_MAX {
                bail!(
                    "the process was not ready in {START_TIME_MAX:?}; the end of its log:\n{}",
                    self.last_log_lines()
                );
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn log_text(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn last_log_lines(&self) -> String {
        let log = self.log_text();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_PRINTED)..].join("\n")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Fails if the process has already exited, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a file into the temporary directory of a server.
pub(super) fn write(path: &Path, content: &str) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("failed to write {}", path.display()))
}
