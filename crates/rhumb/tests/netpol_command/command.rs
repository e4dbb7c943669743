//! The program, and files to give it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What it said to whom, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl Ended {
    /// What it says when all is well and there is nothing to note.
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert!(self.code == Some(0) && self.errors.is_empty(), "{self:?}");
        self.out
    }

    #[track_caller]
    pub(crate) fn rows(&self) -> Vec<Value> {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.out).expect("a list")
    }
}

/// Runs it with words, in which no word has a blank.
pub(crate) fn netpol(directory: &Path, words: &str) -> Ended {
    netpol_with_input(directory, words, "")
}

pub(crate) fn netpol_with_input(directory: &Path, words: &str, input: &str) -> Ended {
    let mut process = Command::new(env!("CARGO_BIN_EXE_rhumb"))
        .arg("netpol")
        .args(words.split_whitespace())
        .current_dir(directory)
        // No server of whoever runs the tests, not even if that is a pod.
        .env("KUBECONFIG", directory.join("no-such-kubeconfig"))
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut pipe = process.stdin.take().expect("a pipe");
    // Whoever reads no input may be gone before it is written.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    let ended = process.wait_with_output().expect("the program ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ended {
        code: ended.status.code(),
        out: text(ended.stdout),
        errors: text(ended.stderr),
    }
}

/// A directory with files.
pub(crate) struct Files(tempfile::TempDir);

impl Files {
    pub(crate) fn new(files: &[(&str, &str)]) -> Files {
        let directory = Files(tempfile::tempdir().expect("a directory"));
        for (name, text) in files {
            directory.write(name, text);
        }
        directory
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn run(&self, words: &str) -> Ended {
        netpol(self.path(), words)
    }
}

/// A pod of a namespace with the label `app`, ports as in YAML, and addresses.
pub(crate) fn pod(namespace: &str, name: &str, ports: &str, addresses: &[&str]) -> String {
    let addresses: Vec<String> = addresses
        .iter()
        .map(|it| format!("{{ip: '{it}'}}"))
        .collect();
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}\n\
         spec: {{containers: [{{name: c, image: i, ports: [{ports}]}}]}}\nstatus: {{podIPs: [{}]}}\n",
        addresses.join(", ")
    )
}

/// A policy with a spec as in YAML.
pub(crate) fn policy(namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n"
    )
}

pub(crate) fn namespace(name: &str, labels: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n"
    )
}

/// From the top of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}
