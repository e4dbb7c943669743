//! Loads against rhumb and its peers, measured in one run so that the ratios mean something.

mod machine;
mod store;

use std::process::ExitCode;

use clap::Parser;

/// Measure rhumb beside its peers.
#[derive(Parser)]
enum Bench {
    /// Writers on the embedded store and on an etcd server, both with fsync.
    Store(store::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Bench::parse() {
        Bench::Store(arguments) => store::run(arguments).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
