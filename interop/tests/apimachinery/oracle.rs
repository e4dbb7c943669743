//! Builds the Go program that responds as upstream does, once per test binary, and runs it.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::protocol::{OracleRequest, OracleResponse, SOURCE};

static PROGRAM: LazyLock<(TempDir, PathBuf)> = LazyLock::new(build);

fn build() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("oracle");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(SOURCE);
    let output = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .output()
        .unwrap_or_else(|error| {
            panic!("failed to run `go` ({error}): install Go 1.26 or later and put it on the PATH, https://go.dev/dl/")
        });
    assert!(
        output.status.success(),
        "`go build` failed in {}:\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    (directory, program)
}

/// Sends all requests to one process. Requests are written while responses are read, so that no pipe fills up.
pub(crate) fn run(requests: &[OracleRequest]) -> Vec<OracleResponse> {
    let mut child = Command::new(&PROGRAM.1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the built program starts");
    let stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    let responses = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut to = BufWriter::new(stdin);
            for request in requests {
                serde_json::to_writer(&mut to, request).expect("the program reads its input");
                to.write_all(b"\n").expect("the program reads its input");
            }
        });
        let read = |line: std::io::Result<String>| {
            let line = line.expect("the program writes UTF-8");
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        BufReader::new(stdout).lines().map(read).collect()
    });
    let status = child.wait().expect("the program exits");
    assert!(
        status.success(),
        "the program exited with {status}; its error is above"
    );
    responses
}
