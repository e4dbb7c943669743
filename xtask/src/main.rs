//! Chores of the project: `cargo xtask --help`.

mod chores;
mod interop;
mod schema;
mod setup;
mod steps;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Chores of the project.
#[derive(Parser)]
enum Chore {
    /// Run all tests that need only Rust and Debian's packages. Sets itself up.
    Test {
        /// Passed on to the test programs, such as the name of a test.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check what the compiler does not: who may use whom, sizes of files, leftovers.
    Tidy,
    /// Measure: `cargo xtask bench store --help`.
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Kill a writing process again and again, and look at what is left.
    Torture {
        #[arg(long, default_value_t = 1000)]
        rounds: usize,
    },
    /// Run the property tests of the parsers with many more cases.
    Fuzz {
        #[arg(long, default_value_t = 200_000)]
        cases: u32,
    },
    /// Compare with the real thing. Needs Go 1.26 or later and its module proxy.
    Interop {
        /// Which parts; all if none is named.
        parts: Vec<interop::Part>,
        /// Passed on to the differential and kubectl parts, such as `-- compare --topic core`.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Make the table of built-in types anew. Needs Go 1.26 or later and its module proxy.
    Schema {
        /// Where swagger.json and openapi-v3/ of an API server are.
        #[arg(long)]
        k8s_api: PathBuf,
    },
}

fn main() -> ExitCode {
    match carry_out(Chore::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(chore: Chore) -> anyhow::Result<()> {
    match chore {
        Chore::Test { arguments } => chores::test(&arguments),
        Chore::Tidy => tidy::run(),
        Chore::Bench { arguments } => chores::bench(&arguments),
        Chore::Torture { rounds } => chores::torture(rounds),
        Chore::Fuzz { cases } => chores::fuzz(cases),
        Chore::Schema { k8s_api } => schema::run(&k8s_api),
        Chore::Interop { parts, arguments } => interop::run(&parts, &arguments),
    }
}
