//! Measures what admission webhooks add to a write: webhooks that exclude it, and webhooks that are called for it.
//!
//! Rounds with and without webhooks alternate on the same server, so that background load affects both. The result is
//! the median of the per-round differences. Entry point: [`run`].

mod called_webhooks;
mod excluded_webhooks;
mod load;
mod report;
mod webhook_config;
mod webhook_server;

use anyhow::{Result, ensure};

use crate::client::HttpVersion;
use crate::servers::{self, BenchServer};
use crate::table::OutputFormat;
pub(crate) use webhook_server::{WebhookServerArguments as HookServer, serve};

#[derive(clap::Args)]
pub(crate) struct AdmissionBenchArguments {
    /// Number of rounds for each server state (with and without webhooks).
    #[arg(long, default_value_t = 25)]
    rounds: usize,
    /// Number of writes per round.
    #[arg(long, default_value_t = 200)]
    writes: usize,
    /// Number of webhook configurations whose webhook excludes every write.
    #[arg(long, default_value_t = 100)]
    configurations: usize,
    /// Numbers of concurrent writers for the called webhook.
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    writers: Vec<usize>,
    /// Highest HTTP version offered by the called webhooks; one webhook process for each.
    ///
    /// kube-apiserver calls a local webhook over HTTP/2 if offered, rhumb over HTTP/1.1.
    #[arg(long, value_delimiter = ',', default_value = "1.1,2")]
    webhook_http: Vec<HttpVersion>,
    /// Output format.
    #[arg(short, long, default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    servers: servers::ServerArguments,
}

pub(crate) async fn run(arguments: AdmissionBenchArguments) -> Result<()> {
    ensure!(
        arguments.rounds > 0 && arguments.writes > 0,
        "--rounds and --writes must not be zero"
    );
    ensure!(
        !arguments.writers.is_empty() && !arguments.writers.contains(&0),
        "--writers must list at least one number, none of them zero"
    );
    let rhumb = arguments.servers.rhumb()?;
    let peer = arguments.servers.peer();
    let excluded = {
        eprintln!("{rhumb}, {} configurations", arguments.configurations);
        let server = BenchServer::start(&rhumb).await?;
        excluded_webhooks::measure(&arguments, &server).await?
    };
    let mut hooks = Vec::new();
    for &http in &arguments.webhook_http {
        hooks.push(webhook_server::WebhookServerProcess::start(http)?);
    }
    let mut sides = vec![called_webhooks::WebhookTestServer::start(&rhumb).await?];
    if let Some(peer) = &peer {
        sides.push(called_webhooks::WebhookTestServer::start(peer).await?);
    }
    let asked = called_webhooks::measure(&arguments, &mut sides, &hooks).await?;
    report::print(&arguments, &excluded, &asked);
    Ok(())
}
