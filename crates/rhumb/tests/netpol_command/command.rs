//! Runs the program on input files.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Standard output, standard error and exit code.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl CommandOutput {
    /// Standard output of a successful run without notes.
    #[track_caller]
    pub(crate) fn success_stdout(self) -> String {
        assert!(self.code == Some(0) && self.errors.is_empty(), "{self:?}");
        self.out
    }

    #[track_caller]
    pub(crate) fn rows(&self) -> Vec<Value> {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.out).expect("a list")
    }
}

/// Runs the command with space-separated arguments.
pub(crate) fn netpol(directory: &Path, arguments: &str) -> CommandOutput {
    netpol_with_input(directory, arguments, "")
}

pub(crate) fn netpol_with_input(directory: &Path, arguments: &str, input: &str) -> CommandOutput {
    let mut process = Command::new(env!("CARGO_BIN_EXE_rhumb"))
        .arg("netpol")
        .args(arguments.split_whitespace())
        .current_dir(directory)
        // Unset the server of the environment, also the in-cluster one.
        .env("KUBECONFIG", directory.join("no-such-kubeconfig"))
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut pipe = process.stdin.take().expect("a pipe");
    // The process may exit before it has read its input.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    let output = process.wait_with_output().expect("the program ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    CommandOutput {
        code: output.status.code(),
        out: text(output.stdout),
        errors: text(output.stderr),
    }
}

/// A temporary directory with files.
pub(crate) struct ManifestDirectory(tempfile::TempDir);

impl ManifestDirectory {
    pub(crate) fn new(files: &[(&str, &str)]) -> ManifestDirectory {
        let directory = ManifestDirectory(tempfile::tempdir().expect("a directory"));
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

    pub(crate) fn run(&self, arguments: &str) -> CommandOutput {
        netpol(self.path(), arguments)
    }
}

/// A pod with the label `app`, ports as YAML, and addresses.
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

/// A policy with its spec as YAML.
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

/// A path relative to the repository root.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}
