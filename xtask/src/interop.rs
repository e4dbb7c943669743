//! Runs the comparisons with upstream. The peers are built from their Go modules into the build directory.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::commands::{cargo, root, step, target};
use crate::external_programs;

/// The Kubernetes release in `interop/kubernetes/go.mod`, which its programs report as their version.
const KUBERNETES_VERSION: &str = "v1.36.3";

/// A suite of comparisons with upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InteropSuite {
    /// Compare rhumb's libraries with upstream's.
    Libraries,
    /// Run the store's tests on an etcd built from source.
    Store,
    /// Send the same requests to rhumb and to kube-apiserver.
    Differential,
    /// Run kubectl against rhumb.
    Kubectl,
    /// Compare rhumb's scheduler with kube-scheduler.
    Scheduling,
    /// Read rhumb's metrics with the parser of Prometheus.
    Metrics,
    /// Compare exclusion rules with the match conditions compiled from them, on kube-apiserver.
    Admission,
}

/// Runs the given suites, or all. The arguments are passed to the differential suite and those after it.
pub(crate) fn run(parts: &[InteropSuite], arguments: &[String]) -> Result<()> {
    ensure!(
        external_programs::on_the_path("go").is_some(),
        "the interop tests need Go 1.26 or later: install it and put `go` on the PATH"
    );
    let all = [
        InteropSuite::Libraries,
        InteropSuite::Store,
        InteropSuite::Differential,
        InteropSuite::Kubectl,
        InteropSuite::Scheduling,
        InteropSuite::Metrics,
        InteropSuite::Admission,
    ];
    for part in all {
        if parts.is_empty() || parts.contains(&part) {
            match part {
                InteropSuite::Libraries => libraries()?,
                InteropSuite::Store => store()?,
                InteropSuite::Differential => differential(arguments)?,
                InteropSuite::Kubectl => kubectl(arguments)?,
                InteropSuite::Scheduling => scheduling(arguments)?,
                InteropSuite::Metrics => metrics()?,
                InteropSuite::Admission => admission(arguments)?,
            }
        }
    }
    Ok(())
}

/// Programs that rhumb is benchmarked against, with the environment variable for the path of each.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UpstreamBinary {
    ApiServer,
    Scheduler,
}

impl UpstreamBinary {
    fn variable_and_name(self) -> (&'static str, &'static str) {
        match self {
            UpstreamBinary::ApiServer => ("RHUMB_BENCH_KUBE_APISERVER", "kube-apiserver"),
            UpstreamBinary::Scheduler => ("RHUMB_BENCH_KUBE_SCHEDULER", "kube-scheduler"),
        }
    }
}

/// Builds the programs and their etcd; returns the environment variables with their values. Returns nothing without
/// Go, and skips programs that the environment names already.
pub(crate) fn peers(wanted: &[UpstreamBinary]) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut peers = Vec::new();
    if external_programs::on_the_path("go").is_none() {
        println!("    no go on the PATH: upstream's programs are not built");
        return Ok(peers);
    }
    let is_open = |variable: &str| std::env::var_os(variable).is_none();
    if is_open("RHUMB_BENCH_ETCD") {
        peers.push(("RHUMB_BENCH_ETCD", etcd()?));
    }
    for (variable, name) in wanted.iter().map(|peer| peer.variable_and_name()) {
        if is_open(variable) {
            kubernetes(name)?;
            peers.push((variable, tools()?.join(name)));
        }
    }
    Ok(peers)
}

fn libraries() -> Result<()> {
    let mut peers = cargo();
    peers.args(["test", "--package", "rhumb-interop", "--no-fail-fast"]);
    step("compare the libraries with upstream's", &mut peers)
}

fn store() -> Result<()> {
    let etcd = etcd()?;
    let mut store = cargo();
    store
        .args([
            "test",
            "--package",
            "rhumb-store",
            "--test",
            "etcd_conformance",
        ])
        .args(["--test", "etcd_faults"])
        .env("RHUMB_TEST_ETCD", &etcd);
    step("test the store on etcd", &mut store)
}

/// Without arguments compares everything; otherwise passes the arguments to the program.
fn differential(arguments: &[String]) -> Result<()> {
    etcd()?;
    kubernetes("kube-apiserver")?;
    let is_about = |word: &str| arguments.iter().any(|argument| argument == word);
    if !is_about("record") && !is_about("--server") {
        build_rhumb()?;
    }
    let mut differential = cargo();
    differential.args(["run", "--quiet", "--package", "rhumb-interop"]);
    differential.args(["--bin", "differential", "--"]);
    if arguments.is_empty() {
        differential.arg("compare");
    }
    differential.args(arguments);
    step("compare rhumb with kube-apiserver", &mut differential)
}

fn kubectl(arguments: &[String]) -> Result<()> {
    kubernetes("kubectl")?;
    match std::env::var("RHUMB_INTEROP_SERVER").as_deref() {
        Ok("kube-apiserver") => {
            etcd()?;
            kubernetes("kube-apiserver")?;
        }
        Ok("rhumb") | Err(_) => build_rhumb()?,
        Ok(_) => {}
    }
    let mut kubectl = cargo();
    kubectl.args(["test", "--package", "rhumb-interop", "--test", "kubectl"]);
    kubectl.arg("--").args(arguments);
    step("run kubectl", &mut kubectl)
}

fn scheduling(arguments: &[String]) -> Result<()> {
    kubernetes("kube-scheduler")?;
    build_rhumb()?;
    let mut scheduling = cargo();
    scheduling.args(["test", "--package", "rhumb-interop", "--test", "scheduling"]);
    scheduling.arg("--").args(arguments);
    step("compare the scheduler with kube-scheduler", &mut scheduling)
}

fn metrics() -> Result<()> {
    let mut reader = Command::new("go");
    reader
        .current_dir(root().join("interop/metrics"))
        .args(["build", "-o"])
        .arg(tools()?.join("read-metrics"))
        .arg(".");
    step("build the reader of metrics", &mut reader)?;
    build_rhumb()?;
    let mut metrics = cargo();
    metrics.args(["test", "--package", "rhumb-interop", "--test", "metrics"]);
    step("rhumb's metrics, read as Prometheus does", &mut metrics)
}

fn admission(arguments: &[String]) -> Result<()> {
    etcd()?;
    kubernetes("kube-apiserver")?;
    let mut admission = cargo();
    admission.args(["test", "--package", "rhumb-interop"]);
    admission
        .args(["--test", "match_conditions", "--"])
        .args(arguments);
    step(
        "compare match conditions with exclusion rules, on kube-apiserver",
        &mut admission,
    )
}

fn build_rhumb() -> Result<()> {
    let mut build = cargo();
    build.args(["build", "--package", "rhumb"]);
    step("build rhumb", &mut build)
}

fn etcd() -> Result<PathBuf> {
    let program = tools()?.join("etcd-from-source");
    let mut build = Command::new("go");
    build
        .current_dir(root().join("interop/etcd"))
        .args(["build", "-o"])
        .arg(&program)
        .arg("go.etcd.io/etcd/server/v3");
    step("build etcd from its module", &mut build)?;
    Ok(program)
}

/// Builds a Kubernetes program. Takes minutes the first time; later builds use Go's cache.
fn kubernetes(name: &str) -> Result<()> {
    let set = |variable: &str, value: &str| {
        format!("-X k8s.io/component-base/version.{variable}={value}")
    };
    let flags = [
        set("gitVersion", KUBERNETES_VERSION),
        set("gitMajor", "1"),
        set("gitMinor", "36"),
    ];
    let mut build = Command::new("go");
    build
        .current_dir(root().join("interop/kubernetes"))
        .args(["build", "-ldflags", &flags.join(" "), "-o"])
        .arg(tools()?.join(name))
        .arg(format!("k8s.io/kubernetes/cmd/{name}"));
    step(&format!("build {name} from its module"), &mut build)
}

/// The directory in which tests look for the programs.
fn tools() -> Result<PathBuf> {
    let directory = target().join("tools");
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}
