//! Benchmarks of rhumb against kube-apiserver, kube-scheduler and etcd: `cargo xtask bench`.
//!
//! Both sides run on the same machine in the same run, so that their ratio is meaningful. One module per subcommand.

mod admission;
mod api;
mod bar_chart;
mod cache;
mod client;
mod host_info;
mod line_chart;
mod list;
mod namespace_deletion;
mod netpol;
mod pods;
mod quota;
mod recorded;
mod scheduler;
mod selection;
mod servers;
mod stats;
mod store;
mod store_open;
mod table;
mod watch;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

/// Benchmark rhumb against kube-apiserver, kube-scheduler and etcd.
#[derive(Parser)]
enum BenchCommand {
    /// Cost of admission webhooks for a write, excluded and called, compared with kube-apiserver.
    Admission(admission::AdmissionBenchArguments),
    /// Requests to an API server with few and with many objects, compared with kube-apiserver.
    Api(api::ApiBenchArguments),
    /// Changes per second through the watch cache, with few and with many watchers.
    Cache(cache::CacheBenchArguments),
    /// Lists of many pods: by label selector, by field selector, all; compared with kube-apiserver.
    List(list::ListBenchArguments),
    /// Deletion of a namespace with many objects, and its effect on other clients.
    Namespace(namespace_deletion::NamespaceBenchArguments),
    /// Network policies: time to compute, time until the kernel enforces a change, and cost per packet.
    Netpol(netpol::NetpolBenchArguments),
    /// Pod creates under resource quotas: cost and exactness, compared with kube-apiserver.
    Quota(quota::QuotaBenchArguments),
    /// Pods bound per second and correctness of their placement, compared with kube-scheduler.
    Scheduler(scheduler::SchedulerBenchArguments),
    /// Cost of the indexes of selectors and of labels, with the selectors and objects of their users.
    Selection(selection::SelectionBenchArguments),
    /// Watchers of pods, each on its own connection, compared with kube-apiserver.
    Watch(watch::WatchBenchArguments),
    /// Write throughput of the embedded store and of an etcd server, both with fsync.
    Store(store::StoreBenchArguments),
    /// Time and memory to open an embedded store with many keys.
    Open(store_open::StoreOpenBenchArguments),
    /// Webhook server of the admission benchmark.
    #[command(hide = true)]
    Webhook(admission::HookServer),
}

impl BenchCommand {
    async fn run(self) -> Result<()> {
        match self {
            BenchCommand::Admission(arguments) => admission::run(arguments).await,
            BenchCommand::Api(arguments) => api::run(arguments).await,
            BenchCommand::Cache(arguments) => cache::run(arguments).await,
            BenchCommand::List(arguments) => list::run(arguments).await,
            BenchCommand::Namespace(arguments) => namespace_deletion::run(arguments).await,
            BenchCommand::Netpol(arguments) => netpol::run(arguments).await,
            BenchCommand::Quota(arguments) => quota::run(arguments).await,
            BenchCommand::Scheduler(arguments) => scheduler::run(arguments).await,
            BenchCommand::Selection(arguments) => selection::run(arguments).await,
            BenchCommand::Watch(arguments) => watch::run(arguments).await,
            BenchCommand::Store(arguments) => store::run(arguments).await,
            BenchCommand::Open(arguments) => store_open::run(arguments).await,
            BenchCommand::Webhook(arguments) => admission::serve(arguments).await,
        }
    }
}

async fn termination_signal() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => bail!("terminated"),
        _ = interrupt.recv() => bail!("interrupted"),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let bench = BenchCommand::parse();
    // On a signal the benchmark's future is dropped, which stops the servers that it started.
    let result = tokio::select! {
        result = bench.run() => result,
        result = termination_signal() => result,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        BenchCommand::command().debug_assert();
    }
}
