//! rhumb beside the real thing. The peers are built from their Go modules and kept in the build directory.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::setup;
use crate::steps::{cargo, root, step, target};

/// The release that `interop/kubernetes/go.mod` asks for: what its programs say that they are.
const KUBERNETES: &str = "v1.36.3";

/// A part of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Our libraries beside upstream's.
    Libraries,
    /// The store's tests on an etcd that is built from source.
    Store,
    /// The same requests to rhumb and to a real kube-apiserver.
    Differential,
    /// The real kubectl against rhumb.
    Kubectl,
    /// rhumb's scheduler beside kube-scheduler.
    Scheduling,
}

/// Runs these parts, or all. The arguments are for the differential part and those after it.
pub(crate) fn run(parts: &[Part], arguments: &[String]) -> Result<()> {
    ensure!(
        setup::on_the_path("go").is_some(),
        "the interop tests need Go 1.26 or later: install it and put `go` on the PATH"
    );
    let all = [
        Part::Libraries,
        Part::Store,
        Part::Differential,
        Part::Kubectl,
        Part::Scheduling,
    ];
    for part in all {
        if parts.is_empty() || parts.contains(&part) {
            match part {
                Part::Libraries => libraries()?,
                Part::Store => store()?,
                Part::Differential => differential(arguments)?,
                Part::Kubectl => kubectl(arguments)?,
                Part::Scheduling => scheduling(arguments)?,
            }
        }
    }
    Ok(())
}

/// What rhumb is measured beside, and the variable that tells the benchmark where each is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    ApiServer,
    Scheduler,
}

impl Peer {
    fn variable_and_name(self) -> (&'static str, &'static str) {
        match self {
            Peer::ApiServer => ("RHUMB_BENCH_KUBE_APISERVER", "kube-apiserver"),
            Peer::Scheduler => ("RHUMB_BENCH_KUBE_SCHEDULER", "kube-scheduler"),
        }
    }
}

/// Builds these and their etcd: each variable and its value. Nothing where there is no Go, and nothing for what the
/// environment names already.
pub(crate) fn peers(wanted: &[Peer]) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut peers = Vec::new();
    if setup::on_the_path("go").is_none() {
        println!("    no go on the PATH: nothing is built to compare with");
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
    step("beside upstream's libraries", &mut peers)
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
    step("the store on that etcd", &mut store)
}

/// Without arguments everything is compared; with some, they are those of the program itself.
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
    step("rhumb beside kube-apiserver", &mut differential)
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
    step("kubectl", &mut kubectl)
}

fn scheduling(arguments: &[String]) -> Result<()> {
    kubernetes("kube-scheduler")?;
    build_rhumb()?;
    let mut scheduling = cargo();
    scheduling.args(["test", "--package", "rhumb-interop", "--test", "scheduling"]);
    scheduling.arg("--").args(arguments);
    step("rhumb's scheduler beside kube-scheduler", &mut scheduling)
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

/// Builds one of Kubernetes' programs. The first time takes some minutes, later Go's cache has it.
fn kubernetes(name: &str) -> Result<()> {
    let set = |variable: &str, value: &str| {
        format!("-X k8s.io/component-base/version.{variable}={value}")
    };
    let flags = [
        set("gitVersion", KUBERNETES),
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

/// Where the tests look for what is built here.
fn tools() -> Result<PathBuf> {
    let directory = target().join("tools");
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}
