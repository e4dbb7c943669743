//! The commands of each task.

use anyhow::Result;

use crate::commands::{cargo, step, target};
use crate::external_programs;
use crate::interop::{self, UpstreamBinary};
use crate::test_times::TestTimes;

/// Packages whose tests need more than Rust and Debian packages.
const EXCLUDE_INTEROP: [&str; 2] = ["--exclude", "rhumb-interop"];

pub(crate) fn test(arguments: &[String]) -> Result<()> {
    let environment = external_programs::for_tests()?;
    let mut build = cargo();
    build
        .args(["test", "--workspace", "--no-run"])
        .args(EXCLUDE_INTEROP);
    step("build", &mut build)?;
    let times = TestTimes::new()?;
    let mut tests = cargo();
    tests
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(EXCLUDE_INTEROP)
        .envs(environment);
    times.measure(&mut tests)?;
    tests.arg("--").args(arguments);
    let outcome = step("tests", &mut tests);
    times.print_slowest()?;
    outcome
}

pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    if is_recorded(arguments) {
        let mut bench = cargo();
        bench
            .args(["run", "--package", "rhumb-bench", "--"])
            .args(arguments);
        return step("bench", &mut bench);
    }
    let environment = external_programs::for_tests()?;
    let load = arguments.first().map_or("", String::as_str);
    let drives_servers = [
        "admission",
        "api",
        "list",
        "namespace",
        "netpol",
        "quota",
        "scheduler",
        "watch",
    ]
    .contains(&load);
    let is_given = arguments.iter().any(|it| it.starts_with("--rhumb="));
    if drives_servers && !is_given && !arguments.iter().any(|it| it == "--rhumb") {
        let mut server = cargo();
        server.args(["build", "--profile", "dist", "--package", "rhumb"]);
        step("build", &mut server)?;
    }
    let peers = match load {
        // Building the peers takes minutes the first time; other benchmarks skip them unless the environment names
        // them.
        "scheduler" if needs_peers(arguments) => {
            interop::peers(&[UpstreamBinary::ApiServer, UpstreamBinary::Scheduler])?
        }
        "list" | "watch" if needs_peers(arguments) => interop::peers(&[UpstreamBinary::ApiServer])?,
        _ => Vec::new(),
    };
    let mut bench = cargo();
    bench
        .args(["run", "--profile", "dist", "--package", "rhumb-bench", "--"])
        .args(arguments)
        .env("RHUMB_BENCH_RHUMB", target().join("dist/rhumb"))
        .envs(environment)
        .envs(peers);
    step("bench", &mut bench)
}

/// Whether the benchmark only draws a chart of earlier results, so that an unoptimised build is enough.
fn is_recorded(arguments: &[String]) -> bool {
    let mut options = arguments.iter();
    options.any(|it| it == "--recorded" || it.starts_with("--recorded="))
}

/// Whether the benchmark measures servers other than rhumb.
fn needs_peers(arguments: &[String]) -> bool {
    let is_help = arguments.iter().any(|it| it == "--help" || it == "-h");
    let only = arguments.iter().enumerate().find_map(|(index, it)| {
        let next = arguments.get(index + 1).map(String::as_str);
        it.strip_prefix("--only=")
            .or_else(|| next.filter(|_| it == "--only"))
    });
    let is_given = |name: &str| arguments.iter().any(|it| it.starts_with(name));
    !is_help && only != Some("rhumb") && !is_given("--server") && !is_given("--kube-apiserver")
}

pub(crate) fn torture(rounds: usize) -> Result<()> {
    let mut torture = cargo();
    torture
        .args([
            "test",
            "--release",
            "--package",
            "rhumb-store",
            "--test",
            "torture",
        ])
        .args(["--", "--rounds", &rounds.to_string()]);
    step("torture", &mut torture)
}

pub(crate) fn fuzz(cases: u32) -> Result<()> {
    let mut fuzz = cargo();
    fuzz.args(["test", "--release"])
        .args(["--package", "rhumb-meta", "--package", "rhumb-schema"])
        .env("PROPTEST_CASES", cases.to_string());
    step("fuzz", &mut fuzz)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_of_rhumb_alone_need_no_peers() {
        let check = |line: &str, expected| {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(needs_peers(&arguments), expected, "{line}");
        };
        check("scheduler", true);
        check("scheduler --only upstream", true);
        check("scheduler --only rhumb,upstream", true);
        check("scheduler --quick --only rhumb", false);
        check("scheduler --only=rhumb", false);
        check("scheduler --help", false);
        check("watch --pods 100", true);
        check("watch --server https://127.0.0.1:6443", false);
        check("list --kube-apiserver=/bin/kube-apiserver", false);
    }
}
