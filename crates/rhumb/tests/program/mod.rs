//! The built program, for the time of a test.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// For most tests: namespaces end and have an account, and nobody else touches anything.
pub(crate) const FEW_CONTROLLERS: &str =
    "--controllers=namespace-controller,serviceaccount-controller";

/// For tests of what nobody else touches.
pub(crate) const NO_CONTROLLERS: &str = "--controllers=";

/// `rhumb up`, running. It ends with this value, and nothing else does.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) process: Child,
    pub(crate) port: u16,
    log: PathBuf,
}

impl Program {
    /// Returns when the server says that it is ready. With port 0 it takes a free one.
    pub(crate) fn start(directory: &Path, port: u16, flags: &[String]) -> Program {
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
        // What else it says must not fill the pipe.
        std::thread::spawn(move || output.lines().for_each(drop));
        let address = said
            .split_whitespace()
            .find_map(|word| word.strip_prefix("https://"));
        let port = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        Program {
            process,
            port: port.expect("the server says its port"),
            log,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it has written to its log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    /// Asks it to end, as a service manager does.
    pub(crate) fn terminate(&self) {
        let id = self.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status();
        assert!(told.expect("kill runs").success(), "the server is gone");
    }

    /// As the machine would take it down: without a warning. Whether it is still there does not matter.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Program {
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
