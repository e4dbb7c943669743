//! The command line of rhumb.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod controllers;
mod duration;
mod pki;
mod store;
mod up;

use std::process::ExitCode;

use clap::Parser;

/// A Kubernetes control plane in one binary, built around selection.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
enum Command {
    /// Start a control plane on this machine.
    Up(Box<up::Flags>),
    /// Run only the controllers, for an API server that runs elsewhere.
    Controllers(Box<controllers::Command>),
    /// Look after the data of a stopped server: check it, save it, bring it back.
    #[command(subcommand)]
    Store(store::Command),
}

fn main() -> ExitCode {
    // Repairs and faults are told as they happen, apart from the results.
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
    let result = match Command::parse() {
        Command::Up(flags) => up::run(*flags),
        Command::Controllers(command) => controllers::run(*command),
        Command::Store(command) => store::run(command),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rhumb: {error:#}");
            ExitCode::FAILURE
        }
    }
}
