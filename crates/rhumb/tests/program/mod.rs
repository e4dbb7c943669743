//! Starts and stops the built program.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The controllers that most tests need: namespace deletion and service accounts.
pub(crate) const FEW_CONTROLLERS: &str =
    "--controllers=namespace-controller,serviceaccount-controller";

/// No controllers, for tests in which nothing else may write.
pub(crate) const NO_CONTROLLERS: &str = "--controllers=";

/// How long tests wait for a condition: far longer than any takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

/// Polls until there is a result.
pub(crate) async fn poll_until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(result) = ask().await {
            return result;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not come about");
        sleep(PAUSE).await;
    }
}

/// A running `rhumb up`, killed on drop.
#[derive(Debug)]
pub(crate) struct RhumbUpProcess {
    pub(crate) process: Child,
    pub(crate) port: u16,
    log: PathBuf,
}

impl RhumbUpProcess {
    /// Returns when the server is ready. Port 0 selects a free port.
    pub(crate) fn start(directory: &Path, port: u16, flags: &[String]) -> RhumbUpProcess {
        let program = Command::new(env!("CARGO_BIN_EXE_rhumb"));
        RhumbUpProcess::start_program(program, directory, port, flags)
    }

    /// Starts the server with a limit on open files.
    // Not every test binary that includes this module uses it.
    #[allow(dead_code)]
    pub(crate) fn start_with_open_files(
        limit: u32,
        directory: &Path,
        flags: &[String],
    ) -> RhumbUpProcess {
        let mut program = Command::new("prlimit");
        program
            .arg(format!("--nofile={limit}:{limit}"))
            .arg(env!("CARGO_BIN_EXE_rhumb"));
        RhumbUpProcess::start_program(program, directory, 0, flags)
    }

    fn start_program(
        mut program: Command,
        directory: &Path,
        port: u16,
        flags: &[String],
    ) -> RhumbUpProcess {
        let log = directory.join("log");
        let mut process = program
            .args(["up", "--secure-port", &port.to_string(), "--data-dir"])
            .arg(data(directory))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("ready")) {
            let read = output.read_line(&mut said).expect("the program's output");
            if read == 0 {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                panic!("the server did not start: {said}{log}");
            }
        }
        // Drain the rest of the output, so that the pipe does not fill up.
        std::thread::spawn(move || output.lines().for_each(drop));
        let address = said
            .split_whitespace()
            .find_map(|word| word.strip_prefix("https://"));
        let port = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        RhumbUpProcess {
            process,
            port: port.expect("the server says its port"),
            log,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    /// Sends SIGTERM, like a service manager.
    pub(crate) fn terminate(&self) {
        let id = self.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status();
        assert!(told.expect("kill runs").success(), "the server is gone");
    }

    /// Sends SIGKILL; the process may have exited already.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for RhumbUpProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn data(directory: &Path) -> PathBuf {
    directory.join("data")
}

pub(crate) fn kubeconfig(directory: &Path) -> PathBuf {
    data(directory).join("admin.kubeconfig")
}
