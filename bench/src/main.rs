//! Loads against rhumb and its peers, measured in one run so that the ratios mean something.

mod admission;
mod api;
mod bars;
mod cache;
mod client;
mod list;
mod machine;
mod namespace;
mod netpol;
mod open;
mod plot;
mod pods;
mod quota;
mod scheduler;
mod servers;
mod stats;
mod store;
mod table;
mod watch;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

/// Measure rhumb beside its peers.
#[derive(Parser)]
enum Bench {
    /// Writes that webhooks are kept from, and writes that one is asked about, beside kube-apiserver.
    Admission(admission::Arguments),
    /// Requests to an API server with few and with many objects, beside kube-apiserver.
    Api(api::Arguments),
    /// Changes a second through the cache, with few and with many watchers.
    Cache(cache::Arguments),
    /// Lists of many pods, by a label, by a field and whole, beside kube-apiserver.
    List(list::Arguments),
    /// The end of a full namespace, and what others notice of it.
    Namespace(namespace::Arguments),
    /// Network policies: until they are known, until a kernel has them, and what packets pay.
    Netpol(netpol::Arguments),
    /// Pods in namespaces with quotas: what a quota costs, and whether it is kept, beside kube-apiserver.
    Quota(quota::Arguments),
    /// Pods that schedulers bind a second, and where they put them, beside kube-scheduler.
    Scheduler(scheduler::Arguments),
    /// Watchers of pods, each on a connection of its own, beside kube-apiserver.
    Watch(watch::Arguments),
    /// Writers on the embedded store and on an etcd server, both with fsync.
    Store(store::Arguments),
    /// Time and memory to open an embedded store of many keys.
    Open(open::Arguments),
    /// The webhook that others ask.
    #[command(hide = true)]
    Webhook(admission::HookServer),
}

impl Bench {
    async fn run(self) -> Result<()> {
        match self {
            Bench::Admission(arguments) => admission::run(arguments).await,
            Bench::Api(arguments) => api::run(arguments).await,
            Bench::Cache(arguments) => cache::run(arguments).await,
            Bench::List(arguments) => list::run(arguments).await,
            Bench::Namespace(arguments) => namespace::run(arguments).await,
            Bench::Netpol(arguments) => netpol::run(arguments).await,
            Bench::Quota(arguments) => quota::run(arguments).await,
            Bench::Scheduler(arguments) => scheduler::run(arguments).await,
            Bench::Watch(arguments) => watch::run(arguments).await,
            Bench::Store(arguments) => store::run(arguments).await,
            Bench::Open(arguments) => open::run(arguments).await,
            Bench::Webhook(arguments) => admission::serve(arguments).await,
        }
    }
}

async fn told_to_stop() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => bail!("terminated"),
        _ = interrupt.recv() => bail!("interrupted"),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let bench = Bench::parse();
    // Whatever ends a benchmark, the servers that it started go with what is dropped here.
    let result = tokio::select! {
        result = bench.run() => result,
        result = told_to_stop() => result,
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
        Bench::command().debug_assert();
    }
}
