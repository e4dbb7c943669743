//! Measures the tests: `cargo test` starts each test program through `cargo xtask run-test`, which adds the time of
//! each test to a file.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::commands::target;

/// Where `run-test` finds the path of the file.
const FILE_VARIABLE: &str = "RHUMB_TEST_TIMES";

/// The number of tests that are listed.
const SLOWEST_COUNT: usize = 15;

/// Shorter tests are not recorded.
const RECORDED_SECONDS_MIN: f64 = 0.1;

/// The file with the times of one run.
pub(crate) struct TestTimes {
    file: PathBuf,
}

impl TestTimes {
    pub(crate) fn new() -> Result<TestTimes> {
        let file = target().join("test-times");
        fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
        Ok(TestTimes { file })
    }

    /// Makes a `cargo test` command start its test programs through this program.
    pub(crate) fn measure(&self, cargo_test: &mut Command) -> Result<()> {
        let xtask = std::env::current_exe().context("cannot find the path of xtask")?;
        let runner = serde_json::json!([xtask, "run-test"]);
        cargo_test
            .arg("--config")
            .arg(format!("target.'cfg(all())'.runner={runner}"))
            .env(FILE_VARIABLE, &self.file);
        Ok(())
    }

    /// Prints the slowest tests.
    pub(crate) fn print_slowest(&self) -> Result<()> {
        let mut times: Vec<(f64, String)> = fs::read_to_string(&self.file)?
            .lines()
            .filter_map(|line| {
                let (seconds, test) = line.split_once(' ')?;
                Some((seconds.parse().ok()?, test.to_owned()))
            })
            .collect();
        times.sort_by(|a, b| b.0.total_cmp(&a.0));
        println!("==> slowest tests");
        for (seconds, test) in times.iter().take(SLOWEST_COUNT) {
            println!("    {seconds:>7.1} s  {test}");
        }
        Ok(())
    }
}

/// Runs a test program, prints its output and records the time of each test.
pub(crate) fn run_test(program: &Path, arguments: &[String]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments);
    let Some(file) = std::env::var_os(FILE_VARIABLE).filter(|_| reports_times(program)) else {
        let status = command.status().with_context(|| failed_start(program))?;
        std::process::exit(status.code().unwrap_or(101));
    };
    let mut times = OpenOptions::new().append(true).open(file)?;
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    let name = stem.rsplit_once('-').map_or(&*stem, |(name, _hash)| name);
    let mut child = command
        .args(["-Zunstable-options", "--report-time"])
        .env("RUSTC_BOOTSTRAP", "1")
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| failed_start(program))?;
    let output = child.stdout.take().context("the output is not piped")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        match test_time(&line) {
            Some((test, seconds)) if seconds >= RECORDED_SECONDS_MIN => {
                writeln!(times, "{seconds} {name}: {test}")?;
            }
            _ => {}
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

fn failed_start(program: &Path) -> String {
    format!("cannot start {}", program.display())
}

/// Whether a test program uses Rust's test harness, which can report times.
fn reports_times(program: &Path) -> bool {
    let help = Command::new(program).arg("--help").output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--report-time"))
}

/// Test and seconds of a line such as `test tests::a ... ok <0.123s>`.
fn test_time(line: &str) -> Option<(&str, f64)> {
    let (test, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = outcome.rsplit_once('<')?.1.strip_suffix("s>")?;
    Some((test, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_the_output_of_the_test_harness() {
        assert_eq!(test_time("test a::b ... ok <1.250s>"), Some(("a::b", 1.25)));
        assert_eq!(test_time("test a ... FAILED <0.100s>"), Some(("a", 0.1)));
        assert_eq!(test_time("test a ... ok"), None);
        assert_eq!(test_time("running 3 tests"), None);
        assert_eq!(
            test_time("test result: ok. 3 passed; finished in 0.1s"),
            None
        );
    }
}
