//! What these tests need of a machine, and what to do where it is not there.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Once, OnceLock};

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::network::Network;
use crate::wiring::Wiring;

/// Runs a test in a network of its own, if networks can be made.
pub(crate) fn with_network(wiring: Wiring, test: impl AsyncFnOnce(&mut Network)) {
    if can_run() {
        runtime().block_on(async {
            let mut network = Network::new(wiring).await;
            test(&mut network).await;
        });
    }
}

pub(crate) fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// Whether tests can run here. If not, it is said where nobody can miss it.
pub(crate) fn can_run() -> bool {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let Some(missing) = MISSING.get_or_init(missing) else {
        return true;
    };
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    // Not by a macro, whose output only failed tests show.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {missing}");
    false
}

fn missing() -> Option<String> {
    if !geteuid().is_root() {
        return Some("only root can make network namespaces".to_owned());
    }
    let trial = format!("rhumb-{}-trial", std::process::id());
    let made = problem_of(&["ip", "netns", "add", &trial]);
    let nft = nft();
    let used = problem_of(&["ip", "netns", "exec", &trial, &nft, "add table inet trial"]);
    let removed = problem_of(&["ip", "netns", "del", &trial]);
    if let Some(problem) = made.or(used).or(removed) {
        return Some(problem);
    }
    let bridges = Path::new("/proc/sys/net/bridge");
    if !bridges.exists() {
        // Where it is a module it can be had.
        let _ = Command::new("modprobe").arg("br_netfilter").status();
    }
    let missing = "the kernel has no br_netfilter".to_owned();
    (!bridges.exists()).then_some(missing)
}

/// The program, which may lie beside the build where the machine has none.
pub(crate) fn nft() -> String {
    std::env::var("RHUMB_TEST_NFT").unwrap_or_else(|_| "nft".to_owned())
}

fn problem_of(step: &[&str]) -> Option<String> {
    let text = step.join(" ");
    let output = Command::new(step[0]).args(&step[1..]).output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Some(format!("{text}: {}", said.trim()))
        }
        Err(error) => Some(format!("{text}: {error}")),
    }
}

/// Once, before the first network is made.
pub(crate) fn prepare_process() {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        remove_leftovers();
        raise_limit_of_files();
    });
}

/// All ends of all connections are in this process.
fn raise_limit_of_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("a limit that is not raised beyond its maximum");
}

/// What a test left that was killed, with all that runs in it.
fn remove_leftovers() {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for name in names.filter(|name| is_left(name)) {
        let ids = Command::new("ip").args(["netns", "pids", &name]).output();
        let ids = ids.map(|output| output.stdout).unwrap_or_default();
        for id in String::from_utf8_lossy(&ids).lines() {
            let _ = Command::new("kill").args(["-KILL", id]).status();
        }
        let _ = Command::new("ip").args(["netns", "del", &name]).status();
    }
}

/// Whether a namespace is one of these tests, of a process that is no more or has had the number of this one.
fn is_left(name: &str) -> bool {
    let rest = name.strip_prefix("rhumb-");
    let process = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    process.is_some_and(|process| {
        process == std::process::id() || !Path::new(&format!("/proc/{process}")).exists()
    })
}
