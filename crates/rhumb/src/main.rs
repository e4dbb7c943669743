//! The `rhumb` binary: parses the command line, installs logging and runs the subcommand.

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
mod clients;
mod controllers;
mod duration;
mod logging;
mod manifests;
mod metrics_server;
mod netpol;
mod new_object_validation;
mod paged_list;
mod pki;
mod scheduler;
mod simulation;
mod store;
mod text_table;
mod up;

use std::process::ExitCode;

use clap::Parser;
use logging::LoggingFlags;

/// docs/decisions/0009 has the reasons for jemalloc.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A Kubernetes control plane in one binary, built around selection.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
enum RhumbCommand {
    /// Start a control plane on this machine.
    Up(Box<up::UpFlags>),
    /// Run only the controllers, for an API server that runs elsewhere.
    Controllers(Box<controllers::ControllersCommand>),
    /// Run only the scheduler, for an API server that runs elsewhere.
    Scheduler(Box<scheduler::SchedulerCommand>),
    /// Run only simulated nodes, for an API server that runs elsewhere.
    SimulateNodes(Box<simulation::SimulateNodesCommand>),
    /// Enforce network policies for the pods of this node with nftables. Needs root.
    Agent(Box<agent::AgentCommand>),
    /// Explain, check and translate admission webhook configurations.
    #[command(subcommand)]
    Admission(admission::AdmissionCommand),
    /// Evaluate network policies from files or from a server: which connections are allowed.
    #[command(subcommand)]
    Netpol(netpol::NetpolCommand),
    /// Check, back up or restore the data directory of a stopped server.
    #[command(subcommand)]
    Store(store::StoreCommand),
}

impl RhumbCommand {
    /// The log flags of commands that have them; the defaults of others.
    fn logging(&self) -> LoggingFlags {
        match self {
            RhumbCommand::Up(flags) => flags.logging,
            RhumbCommand::Controllers(command) => command.logging,
            RhumbCommand::Scheduler(command) => command.logging(),
            RhumbCommand::SimulateNodes(command) => command.logging,
            RhumbCommand::Agent(command) => command.logging,
            RhumbCommand::Admission(_) | RhumbCommand::Netpol(_) | RhumbCommand::Store(_) => {
                LoggingFlags::default()
            }
        }
    }
}

fn main() -> ExitCode {
    let command = RhumbCommand::parse();
    logging::install(command.logging(), matches!(command, RhumbCommand::Up(_)));
    let result = match command {
        RhumbCommand::Up(flags) => up::run(*flags),
        RhumbCommand::Controllers(command) => controllers::run(*command),
        RhumbCommand::Scheduler(command) => scheduler::run(*command),
        RhumbCommand::SimulateNodes(command) => simulation::run(*command),
        RhumbCommand::Agent(command) => agent::run(*command),
        RhumbCommand::Admission(command) => admission::run(command),
        RhumbCommand::Netpol(command) => netpol::run(command),
        RhumbCommand::Store(command) => store::run(command),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rhumb: {error:#}");
            ExitCode::FAILURE
        }
    }
}
