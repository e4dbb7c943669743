//! Cost and correctness of watch delivery: many watchers of pods, each with its own TLS connection and label selector.
//!
//! Servers run as separate processes. CPU time is the server's only; lag is the time until a watcher gets the event.

mod churn;
mod event;
mod history;
mod load;
mod report;
mod round;
mod watchers;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::client::{HttpVersion, ServerEndpoint};
use crate::host_info;
use crate::line_chart;
use crate::recorded;
use crate::servers::{self, AlreadyRunningServer, ServerProgram};
use crate::table::OutputFormat;
pub(crate) use event::BodyLineReader;
use round::WatchRound;

/// Open files of the server and of the load generator in addition to the watch connections.
const OTHER_FILES: u64 = 500;

#[derive(clap::Args)]
pub(crate) struct WatchBenchArguments {
    /// Numbers of watchers; each is measured on a fresh server.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,5000,10000")]
    watchers: Vec<usize>,
    /// Largest number of watchers for kube-apiserver.
    #[arg(long, default_value_t = 5000)]
    peer_watchers: usize,
    /// Number of pods to create; with --churn, number of changes.
    #[arg(long, default_value_t = 3000)]
    pods: usize,
    /// Pods or changes per second, unless the server cannot keep up.
    #[arg(long, default_value_t = 300.0)]
    rate: f64,
    /// Number of pods created afterwards at the maximum rate; ignored with --churn.
    #[arg(long, default_value_t = 20_000)]
    busy_pods: usize,
    /// Create, change, relabel and delete pods, and check the events of each watcher against the writes.
    #[arg(long)]
    churn: bool,
    /// With the fewest watchers, repeat the load with this number of unfiltered watchers that never read.
    #[arg(long, default_value_t = 3)]
    stalled: usize,
    /// HTTP version of the watch connections; client-go uses HTTP/2.
    #[arg(long, default_value = "2")]
    http: HttpVersion,
    /// Idle time in seconds before the memory of a server is read.
    #[arg(long, default_value_t = 5)]
    settle_seconds: u64,
    /// Output format.
    #[arg(short, long, default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    chart: recorded::ChartArguments,
    /// Measure only this server.
    #[arg(long)]
    only: Option<ServerFilter>,
    #[command(flatten)]
    servers: servers::ServerArguments,
    #[command(flatten)]
    running: ExternalServerArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ServerFilter {
    Rhumb,
    Peer,
}

/// Options for an already running server, measured instead of the others. Pods remain in namespaces load-0 to load-9.
#[derive(clap::Args)]
struct ExternalServerArguments {
    /// Use this running server instead of starting one: https://HOST:PORT.
    #[arg(long, requires_all = ["server_ca", "server_token_file"])]
    server: Option<String>,
    /// CA certificate of the running server, as PEM.
    #[arg(long)]
    server_ca: Option<PathBuf>,
    /// File with a cluster-admin token.
    #[arg(long)]
    server_token_file: Option<PathBuf>,
    /// Process ids of the running server, if local, to read CPU time and memory.
    #[arg(long, value_delimiter = ',')]
    server_pids: Vec<u32>,
}

impl ExternalServerArguments {
    fn program(&self) -> Result<Option<ServerProgram>> {
        let (Some(url), Some(ca), Some(token)) =
            (&self.server, &self.server_ca, &self.server_token_file)
        else {
            return Ok(None);
        };
        let address = url
            .strip_prefix("https://")
            .map(|it| it.trim_end_matches('/'));
        let (host, port) = address
            .and_then(|address| address.rsplit_once(':'))
            .context("--server must be of the form https://HOST:PORT")?;
        let token = fs::read_to_string(token).context("failed to read --server-token-file")?;
        let authority = fs::read(ca).context("failed to read --server-ca")?;
        let endpoint = ServerEndpoint::new(host, port.parse()?, token.trim(), &authority)?;
        let processes = self.server_pids.clone();
        Ok(Some(ServerProgram::Running(AlreadyRunningServer {
            endpoint,
            processes,
        })))
    }
}

impl WatchBenchArguments {
    /// Servers to measure, each with its maximum number of watchers.
    fn programs(&self) -> Result<Vec<(ServerProgram, usize)>> {
        if let Some(running) = self.running.program()? {
            return Ok(vec![(running, usize::MAX)]);
        }
        let mut programs = Vec::new();
        if self.only != Some(ServerFilter::Peer) {
            programs.push((self.servers.rhumb()?, usize::MAX));
        }
        if self.only != Some(ServerFilter::Rhumb) {
            let peer = self.servers.peer();
            programs.extend(peer.map(|peer| (peer, self.peer_watchers)));
        }
        Ok(programs)
    }
}

pub(crate) async fn run(arguments: WatchBenchArguments) -> Result<()> {
    if let Some(file) = &arguments.chart.recorded {
        let rounds: Vec<WatchRound> = recorded::read_rounds(file)?;
        return write_chart(&arguments, &rounds);
    }
    ensure!(arguments.rate > 0.0, "--rate must be greater than 0");
    ensure!(
        !arguments.watchers.contains(&0),
        "every number in --watchers must be at least 1"
    );
    let most = arguments.watchers.iter().max();
    let most = *most.context("--watchers must list at least one number")? as u64;
    let files = host_info::raise_open_files()?;
    ensure!(
        most + OTHER_FILES <= files,
        "{most} watchers need more open files than the limit of {files}"
    );
    let mut rounds = Vec::new();
    for (program, watchers_max) in arguments.programs()? {
        let counts = arguments.watchers.iter().copied();
        for watchers in counts.filter(|watchers| *watchers <= watchers_max) {
            eprintln!("{program}, {watchers} watchers");
            let round = WatchRound::run(&arguments, &program, watchers).await?;
            eprintln!("  {round}");
            rounds.push(round);
        }
    }
    report::print(&arguments, &rounds);
    write_chart(&arguments, &rounds)?;
    match rounds.iter().find(|round| round.is_wrong()) {
        Some(round) => bail!("{round}: {}", round.problems.join("; ")),
        None => Ok(()),
    }
}

fn write_chart(arguments: &WatchBenchArguments, rounds: &[WatchRound]) -> Result<()> {
    arguments
        .chart
        .write_chart(|| line_chart::render(&report::panels(rounds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_shows_the_recorded_results() {
        recorded::assert_chart_is_current("watch", |rounds: &[WatchRound]| {
            line_chart::render(&report::panels(rounds))
        });
    }
}
