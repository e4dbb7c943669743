//! A server of the built program, for the time of a test.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;

/// `rhumb up` on a free port, with a data directory of its own. It ends with this value, and nothing else does.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    /// Held open: whoever reads the program's output must not go before the program.
    _output: BufReader<ChildStdout>,
    port: u16,
    flags: Vec<String>,
    directory: TempDir,
}

impl Server {
    /// Returns when the server says that it is ready.
    pub(crate) fn start() -> Server {
        Server::start_with(&[])
    }

    /// The same with further flags.
    pub(crate) fn start_with(flags: &[&str]) -> Server {
        let directory = tempfile::tempdir().expect("a directory");
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let (process, output, port) = spawn(directory.path(), &flags, 0);
        Server {
            process,
            _output: output,
            port,
            flags,
            directory,
        }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        data(self.directory.path()).join("admin.kubeconfig")
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// As the machine would take it down: without a warning.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("the server is ours to kill");
        self.process.wait().expect("it ended");
    }

    /// As a person would stop it; waits until it is gone.
    pub(crate) fn stop(&mut self) {
        let id = self.process.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status();
        assert!(told.expect("kill runs").success(), "the server is gone");
        let ended = self.process.wait().expect("it ended");
        assert!(ended.success(), "the server ended with {ended}");
    }

    /// On the same data and port as before.
    pub(crate) fn start_again(&mut self) {
        let (process, output, _) = spawn(self.directory.path(), &self.flags, self.port);
        self.process = process;
        self._output = output;
    }

    /// A client of the administrator.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(|_| {}).await
    }

    /// A client whose configuration the test changes. Nothing is tried again unless the test does.
    pub(crate) async fn client_with(&self, change: impl FnOnce(&mut Config)) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .expect("a configuration");
        config.default_retry = false;
        change(&mut config);
        Client::try_from(config).expect("a client")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whether it is still there does not matter, as long as it is not any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn data(directory: &Path) -> PathBuf {
    directory.join("data")
}

fn spawn(directory: &Path, flags: &[String], port: u16) -> (Child, BufReader<ChildStdout>, u16) {
    let log = directory.join("log");
    let mut process = Command::new(env!("CARGO_BIN_EXE_rhumb"))
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
    let address = said
        .split_whitespace()
        .find_map(|word| word.strip_prefix("https://"));
    let port = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
    (process, output, port.expect("the server says its port"))
}
