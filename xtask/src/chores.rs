//! What each chore runs.

use anyhow::Result;

use crate::setup;
use crate::steps::{cargo, step, target};

/// The packages whose tests need more than Rust and Debian.
const ELSEWHERE: [&str; 2] = ["--exclude", "rhumb-interop"];

pub(crate) fn test(arguments: &[String]) -> Result<()> {
    let environment = setup::for_tests()?;
    let mut build = cargo();
    build
        .args(["test", "--workspace", "--no-run"])
        .args(ELSEWHERE);
    step("build", &mut build)?;
    let mut tests = cargo();
    tests
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(ELSEWHERE)
        .envs(environment)
        .arg("--")
        .args(arguments);
    step("tests", &mut tests)
}

pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    let environment = setup::for_tests()?;
    let drives_servers = arguments.first().is_some_and(|load| {
        ["admission", "api", "list", "namespace", "quota", "watch"].contains(&load.as_str())
    });
    let is_given = arguments.iter().any(|it| it.starts_with("--rhumb="));
    if drives_servers && !is_given && !arguments.iter().any(|it| it == "--rhumb") {
        let mut server = cargo();
        server.args(["build", "--profile", "bench", "--package", "rhumb"]);
        step("build", &mut server)?;
    }
    let mut bench = cargo();
    bench
        .args([
            "run",
            "--profile",
            "bench",
            "--package",
            "rhumb-bench",
            "--",
        ])
        .args(arguments)
        // Cargo puts what the profile `bench` makes where releases go.
        .env("RHUMB_BENCH_RHUMB", target().join("release/rhumb"))
        .envs(environment);
    step("bench", &mut bench)
}

pub(crate) fn torture(rounds: usize) -> Result<()> {
    let mut torture = cargo();
    torture
        .args([
            "test",
            "--profile",
            "bench",
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
    fuzz.args(["test", "--profile", "bench"])
        .args(["--package", "rhumb-meta", "--package", "rhumb-schema"])
        .env("PROPTEST_CASES", cases.to_string());
    step("fuzz", &mut fuzz)
}
