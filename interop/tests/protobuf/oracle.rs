//! The Go program that answers for upstream: built once, asked by each test.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

#[derive(Debug, Serialize)]
pub(crate) struct Question {
    op: &'static str,
    pub(crate) r#type: String,
    pub(crate) input: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) output: String,
    pub(crate) error: String,
}

impl Question {
    pub(crate) fn new(op: &'static str, of: &str, input: String) -> Question {
        Question {
            op,
            r#type: of.to_owned(),
            input,
        }
    }
}

static PROGRAM: LazyLock<(TempDir, PathBuf)> = LazyLock::new(build);

fn build() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("oracle");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("gotypes");
    let output = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg("./oracle")
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

/// Asks all questions of one process. Questions are written while answers are read, so that no pipe fills up.
pub(crate) fn ask(questions: &[Question]) -> Vec<Answer> {
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
