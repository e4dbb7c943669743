//! The Go program with upstream's answers, built once and run by each test.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::protocol::{OracleRequest, OracleResponse, SOURCE};

static PROGRAM: LazyLock<(TempDir, PathBuf)> = LazyLock::new(build);

fn build() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("oracle");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(SOURCE);
    let output = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .output()
        .unwrap_or_else(|error| {
            panic!("cannot run `go` ({error}): install Go 1.26 or newer, https://go.dev/dl/")
        });
    assert!(
        output.status.success(),
        "`go build` failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    (folder, program)
}

/// Sends all requests to one process. Requests are written while responses are read, so that no pipe fills up.
pub(crate) fn ask(questions: &[OracleRequest]) -> Vec<OracleResponse> {
    let mut child = Command::new(&PROGRAM.1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program that was just built starts");
    let stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    let answers = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut to = BufWriter::new(stdin);
            for question in questions {
                serde_json::to_writer(&mut to, question).expect("the program reads");
                to.write_all(b"\n").expect("the program reads");
            }
        });
        let read = |line: std::io::Result<String>| {
            let line = line.expect("the program answers in UTF-8");
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        BufReader::new(stdout).lines().map(read).collect()
    });
    let status = child.wait().expect("the program ends");
    assert!(status.success(), "the program ended with {status}");
    answers
}
