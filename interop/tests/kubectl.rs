//! Runs kubectl against a server, with the transcripts in `interop/kubectl/`: `cargo xtask interop kubectl`.
//!
//! RHUMB_INTEROP_SERVER selects the server: `rhumb` (default), `kube-apiserver`, or a kubeconfig. An argument selects
//! transcripts by name. Those of fields that only rhumb has begin with `rhumb-`, and are left out for kube-apiserver. RHUMB_INTEROP_BLESS=1 writes the actual output into the transcripts: use it only with
//! kube-apiserver, and review the result.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use rhumb_interop::kubeconfig::Kubeconfig;
use rhumb_interop::servers::{self, TestServer};
use rhumb_interop::transcript::{KubectlTranscript, TranscriptStep, mask, matches, trim};

fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    match run_all_transcripts(&filter) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("kubectl: {failed} commands printed unexpected output");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("kubectl: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_all_transcripts(filter: &str) -> Result<usize> {
    let name = std::env::var("RHUMB_INTEROP_SERVER").unwrap_or_else(|_| "rhumb".into());
    let server = servers::start(&name)?;
    println!("kubectl against {name}");
    let mut failed = 0;
    let mut paths = transcripts(filter)?;
    if name == "kube-apiserver" {
        paths.retain(|path| !is_for_rhumb_only(path));
    }
    for path in paths {
        failed +=
            run_transcript(server.as_ref(), &path).with_context(|| path.display().to_string())?;
    }
    Ok(failed)
}

fn transcripts(filter: &str) -> Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl");
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&directory)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.extension().is_some_and(|end| end == "txt") && name.contains(filter) {
            paths.push(path);
        }
    }
    ensure!(
        !paths.is_empty(),
        "no transcript in {} has {filter:?} in its name",
        directory.display()
    );
    paths.sort();
    Ok(paths)
}

fn is_for_rhumb_only(transcript: &Path) -> bool {
    let name = transcript.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with("rhumb-")
}

/// Runs a transcript in its own namespace and returns the number of commands with unexpected output.
fn run_transcript(server: &dyn TestServer, path: &Path) -> Result<usize> {
    let mut transcript = KubectlTranscript::parse(&std::fs::read_to_string(path)?);
    let shell = KubectlShell::new(server)?;
    let (mut failed, mut updated) = (0, false);
    for step in &mut transcript.steps {
        let actual = shell.run(step)?;
        if matches(&step.output, &actual) {
            continue;
        }
        if std::env::var_os("RHUMB_INTEROP_BLESS").is_some() {
            step.output = actual;
            updated = true;
        } else {
            failed += 1;
            print_difference(path, step, &actual);
        }
    }
    if updated {
        std::fs::write(path, transcript.print())?;
    }
    let count = transcript.steps.len();
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    println!("{name:20} {count:3} commands, {failed} differ");
    Ok(failed)
}

fn print_difference(path: &Path, step: &TranscriptStep, actual: &[String]) {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    println!("\n{name}: $ {}", step.command);
    for line in &step.output {
        println!("  - {line}");
    }
    for line in actual {
        println!("  + {line}");
    }
}

/// The environment of commands: a directory, a namespace, and a kubeconfig for both.
struct KubectlShell {
    directory: tempfile::TempDir,
    namespace: String,
    path: String,
}

impl KubectlShell {
    fn new(server: &dyn TestServer) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let namespace = format!("ns-{}", &id[..8]);
        let mut kubeconfig = Kubeconfig::read(server.kubeconfig())?;
        kubeconfig.namespace = Some(namespace.clone());
        kubeconfig.write(&directory.path().join("kubeconfig"))?;
        let kubectl = servers::tool("RHUMB_TEST_KUBECTL", "kubectl")?;
        let kubectl_directory = kubectl
            .parent()
            .with_context(|| format!("{} has no parent directory", kubectl.display()))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let shell = Self {
            path: format!("{}:{path}", kubectl_directory.canonicalize()?.display()),
            directory,
            namespace,
        };
        shell.create("namespace", "$NAMESPACE")?;
        // The default service account, which pods need. A controller may create it as well.
        shell.create("serviceaccount", "default")?;
        Ok(shell)
    }

    /// Creates an object unless it exists.
    fn create(&self, kind: &str, name: &str) -> Result<()> {
        let output = self.run(&TranscriptStep {
            command: format!("kubectl create {kind} {name}"),
            ..TranscriptStep::default()
        })?;
        let exists =
            |line: &String| line.ends_with(" created") || line.ends_with(" already exists");
        ensure!(
            output.first().is_some_and(exists),
            "failed to create {kind} {name}: {output:?}"
        );
        Ok(())
    }

    /// The command's standard output, then standard error, and the exit code if it is not 0.
    fn run(&self, step: &TranscriptStep) -> Result<Vec<String>> {
        let mut child = Command::new("sh")
            .args(["-c", &step.command])
            .current_dir(self.directory.path())
            .env("PATH", &self.path)
            .env("HOME", self.directory.path())
            .env("KUBECONFIG", self.directory.path().join("kubeconfig"))
            .env("NAMESPACE", &self.namespace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // Ignore the error of a command that does not read its input.
            let _ = input.write_all((step.input.join("\n") + "\n").as_bytes());
        }
        let output = child.wait_with_output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut lines = mask(&text(&output.stdout), &self.namespace);
        trim(&mut lines);
        lines.extend(mask(&text(&output.stderr), &self.namespace));
        trim(&mut lines);
        if !output.status.success() {
            lines.push(format!("? {}", output.status.code().unwrap_or(-1)));
        }
        Ok(lines)
    }
}
