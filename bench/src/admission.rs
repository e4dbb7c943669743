//! What webhooks cost the writes that they are not to see, and those that they are asked about.
//!
//! A server is measured with its webhooks and without them in turns, many times, so that whatever else the machine
//! does meanwhile is in both. What counts is the median of the differences.

mod exclusions;
mod hook;
mod hook_server;
mod load;
mod questions;
mod report;

use anyhow::{Result, ensure};

use crate::client::Http;
use crate::servers::{self, Server};
use crate::table::Output;
pub(crate) use hook_server::{Arguments as HookServer, serve};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How often each state of a server has its turn.
    #[arg(long, default_value_t = 25)]
    rounds: usize,
    /// How many writes there are in a turn.
    #[arg(long, default_value_t = 200)]
    writes: usize,
    /// How many configurations have a webhook that every write is excluded from.
    #[arg(long, default_value_t = 100)]
    configurations: usize,
    /// How many write at a time what a webhook is asked about.
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    writers: Vec<usize>,
    /// What webhooks that are asked speak at best, each in a process of its own.
    ///
    /// kube-apiserver asks its own machine over HTTP/2 where it can, rhumb over HTTP/1.1.
    #[arg(long, value_delimiter = ',', default_value = "1.1,2")]
    webhook_http: Vec<Http>,
    /// A table for people, or JSON.
    #[arg(short, long, default_value = "table")]
    output: Output,
    #[command(flatten)]
    servers: servers::Choice,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    ensure!(
        arguments.rounds > 0 && arguments.writes > 0,
        "--rounds and --writes must not be zero"
    );
    ensure!(
        !arguments.writers.is_empty() && !arguments.writers.contains(&0),
        "--writers names no number, or zero"
    );
    let rhumb = arguments.servers.rhumb()?;
    let peer = arguments.servers.peer();
    let excluded = {
        eprintln!("{rhumb}, {} configurations", arguments.configurations);
        let server = Server::start(&rhumb).await?;
        exclusions::measure(&arguments, &server).await?
    };
    let mut hooks = Vec::new();
    for &http in &arguments.webhook_http {
        hooks.push(hook_server::Process::start(http)?);
    }
    let mut sides = vec![questions::Side::start(&rhumb).await?];
    if let Some(peer) = &peer {
        sides.push(questions::Side::start(peer).await?);
    }
    let asked = questions::measure(&arguments, &mut sides, &hooks).await?;
    report::print(&arguments, &excluded, &asked);
    Ok(())
}
