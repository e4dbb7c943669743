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

mod admission;
mod agent;
mod columns;
mod connect;
mod controllers;
mod documents;
mod duration;
mod listener;
mod listing;
mod netpol;
mod pki;
mod scheduler;
mod simulation;
mod store;
mod up;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Why this one: docs/decisions/0009.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A Kubernetes control plane in one binary, built around selection.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
enum Command {
    /// Start a control plane on this machine.
    Up(Box<up::Flags>),
    /// Run only the controllers, for an API server that runs elsewhere.
    Controllers(Box<controllers::Command>),
    /// Run only the scheduler, for an API server that runs elsewhere.
    Scheduler(Box<scheduler::Command>),
    /// Run only simulated nodes, for an API server that runs elsewhere.
    SimulateNodes(Box<simulation::Command>),
    /// Enforce network policies for the pods of this node, by nftables; as root.
    Agent(Box<agent::Command>),
    /// Ask who sees a request before it is stored: webhooks, policies, exclusions.
    #[command(subcommand)]
    Admission(admission::Command),
    /// Ask who may reach whom by network policies, in files or on a server.
    #[command(subcommand)]
    Netpol(netpol::Command),
    /// Look after the data of a stopped server: check it, save it, bring it back.
    #[command(subcommand)]
    Store(store::Command),
}

/// Who leads is news only where controllers run apart. What kube-rs reports, its callers report as well.
fn is_told(line: &tracing::Metadata<'_>, is_up: bool) -> bool {
    let most = match line.target() {
        target if target.starts_with("kube") => return false,
        target if is_up && is_of_clients(target) => tracing::Level::WARN,
        _ => tracing::Level::INFO,
    };
    *line.level() <= most
}

fn is_of_clients(target: &str) -> bool {
    ["rhumb_client", "rhumb_controllers", "rhumb_scheduler"]
        .iter()
        .any(|of| target.starts_with(of))
}

fn main() -> ExitCode {
    // Repairs and faults are told as they happen, apart from the results.
    let command = Command::parse();
    let is_up = matches!(command, Command::Up(_));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_filter(filter_fn(move |line| is_told(line, is_up)));
    tracing_subscriber::registry().with(lines).init();
    let result = match command {
        Command::Up(flags) => up::run(*flags),
        Command::Controllers(command) => controllers::run(*command),
        Command::Scheduler(command) => scheduler::run(*command),
        Command::SimulateNodes(command) => simulation::run(*command),
        Command::Agent(command) => agent::run(*command),
        Command::Admission(command) => admission::run(command),
        Command::Netpol(command) => netpol::run(command),
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
