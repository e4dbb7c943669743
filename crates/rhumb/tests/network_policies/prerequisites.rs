//! Requirements of these tests on the machine, and how missing ones are reported.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Once, OnceLock};

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::network::TestNetwork;
use crate::pod_links::PodLinkType;

/// Runs a test in its own network, if networks can be created.
pub(crate) fn with_network(link_type: PodLinkType, test: impl AsyncFnOnce(&mut TestNetwork)) {
    if can_run() {
        runtime().block_on(async {
            let mut network = TestNetwork::new(link_type).await;
            test(&mut network).await;
        });
    }
}

pub(crate) fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// Whether tests can run here. If not, prints a visible note.
pub(crate) fn can_run() -> bool {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let Some(missing) = MISSING.get_or_init(missing) else {
        return true;
    };
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    // Without a macro, whose output is shown only for failed tests.
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
        // Loads the kernel module, if it is one.
        let _ = Command::new("modprobe").arg("br_netfilter").status();
    }
    let missing = "the kernel has no br_netfilter".to_owned();
    (!bridges.exists()).then_some(missing)
}

/// The path of a program; it may be in the build directory if the machine lacks it.
pub(crate) fn nft() -> String {
    std::env::var("RHUMB_TEST_NFT").unwrap_or_else(|_| "nft".to_owned())
}

fn problem_of(step: &[&str]) -> Option<String> {
    let text = step.join(" ");
    let output = Command::new(step[0]).args(&step[1..]).output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Some(format!("{text}: {}", stderr.trim()))
        }
        Err(error) => Some(format!("{text}: {error}")),
    }
}

/// Runs once, before the first network is created.
pub(crate) fn prepare_process() {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        remove_leftovers();
        raise_limit_of_files();
    });
}

/// Raises the limit of open files: both ends of all connections are in this process.
fn raise_limit_of_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("a limit that is not raised beyond its maximum");
}

/// Removes namespaces and processes of killed test runs.
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

/// Whether a namespace belongs to a test process that has exited, or that had the PID of this one.
fn is_left(name: &str) -> bool {
    let rest = name.strip_prefix("rhumb-");
    let process = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    process.is_some_and(|process| {
        process == std::process::id() || !Path::new(&format!("/proc/{process}")).exists()
    })
}
