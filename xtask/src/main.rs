//! Development tasks: `cargo xtask --help`.

mod commands;
mod external_programs;
mod interop;
mod schema;
mod tasks;
mod test_times;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Development tasks.
#[derive(Parser)]
enum XtaskCommand {
    /// Run all tests that need only Rust and Debian packages. Downloads missing tools.
    Test {
        /// Arguments for the test programs, such as the name of a test.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run a test program and record the time of each test; used by `test`.
    #[command(hide = true)]
    RunTest {
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check crate dependencies, file sizes and leftover markers.
    Tidy,
    /// Run a benchmark: `cargo xtask bench store --help`.
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Kill a writing process repeatedly and check the store afterwards.
    Torture {
        #[arg(long, default_value_t = 1000)]
        rounds: usize,
    },
    /// Run the property tests of the parsers with many more cases.
    Fuzz {
        #[arg(long, default_value_t = 200_000)]
        cases: u32,
    },
    /// Compare with upstream. Needs Go 1.26 or later and its module proxy.
    Interop {
        /// Suites to run [default: all].
        parts: Vec<interop::InteropSuite>,
        /// Arguments for the differential and kubectl suites, such as `-- compare --topic core`.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Regenerate the table of built-in types. Needs Go 1.26 or later and its module proxy.
    Schema {
        /// Directory with swagger.json and openapi-v3/ of an API server.
        #[arg(long)]
        k8s_api: PathBuf,
    },
}

fn main() -> ExitCode {
    match carry_out(XtaskCommand::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(chore: XtaskCommand) -> anyhow::Result<()> {
    match chore {
        XtaskCommand::Test { arguments } => tasks::test(&arguments),
        XtaskCommand::RunTest { program, arguments } => test_times::run_test(&program, &arguments),
        XtaskCommand::Tidy => tidy::run(),
        XtaskCommand::Bench { arguments } => tasks::bench(&arguments),
        XtaskCommand::Torture { rounds } => tasks::torture(rounds),
        XtaskCommand::Fuzz { cases } => tasks::fuzz(cases),
        XtaskCommand::Schema { k8s_api } => schema::run(&k8s_api),
        XtaskCommand::Interop { parts, arguments } => interop::run(&parts, &arguments),
    }
}
