//! What it costs to tell watchers of pods, each watcher on a TLS connection of its own and with its own label.
//!
//! The servers are real: processes of their own. CPU time is theirs alone; lag is what a watcher waits for.

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

use crate::client::{Endpoint, Http};
use crate::machine;
use crate::plot;
use crate::servers::{self, Program, Running};
use crate::table::Output;
pub(crate) use event::Lines;
use round::Round;

/// What a server has open beside its watchers, and the load generator too.
const OTHER_FILES: u64 = 500;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many watchers there are; each number gets a server of its own.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,5000,10000")]
    watchers: Vec<usize>,
    /// Up to how many watchers the comparison goes.
    #[arg(long, default_value_t = 5000)]
    peer_watchers: usize,
    /// How many pods are created; with --churn, how many changes are made.
    #[arg(long, default_value_t = 3000)]
    pods: usize,
    /// How many of them a second, unless the server cannot keep up.
    #[arg(long, default_value_t = 300.0)]
    rate: f64,
    /// How many pods are created after them as fast as the server takes them; with --churn none are.
    #[arg(long, default_value_t = 20_000)]
    busy_pods: usize,
    /// Create, change, relabel and delete pods, and check what each watcher was told against what happened.
    #[arg(long)]
    churn: bool,
    /// With the fewest watchers, do it again beside so many watchers of everything that never read.
    #[arg(long, default_value_t = 3)]
    stalled: usize,
    /// What the watchers' connections speak; clients in Go speak HTTP/2.
    #[arg(long, default_value = "2")]
    http: Http,
    /// How long a server is left alone before its memory is looked at.
    #[arg(long, default_value_t = 5)]
    settle_seconds: u64,
    /// A table for people, or JSON.
    #[arg(short, long, default_value = "table")]
    output: Output,
    /// Draw CPU time and lag over watchers into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Measure only this one.
    #[arg(long)]
    only: Option<Only>,
    #[command(flatten)]
    servers: servers::Choice,
    #[command(flatten)]
    running: RunningArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    Rhumb,
    Peer,
}

/// A server that is there already, instead of those that are started. Pods stay in its namespaces load-0 to load-9.
#[derive(clap::Args)]
struct RunningArguments {
    /// Drive this server and start none: https://HOST:PORT.
    #[arg(long, requires_all = ["server_ca", "server_token_file"])]
    server: Option<String>,
    /// The authority of its certificate, as PEM.
    #[arg(long)]
    server_ca: Option<PathBuf>,
    /// A file with a token that may do everything.
    #[arg(long)]
    server_token_file: Option<PathBuf>,
    /// Its processes, if they are on this machine, for their CPU time and memory.
    #[arg(long, value_delimiter = ',')]
    server_pids: Vec<u32>,
}

impl RunningArguments {
    fn program(&self) -> Result<Option<Program>> {
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
            .context("--server is https://HOST:PORT")?;
        let token = fs::read_to_string(token).context("--server-token-file")?;
        let authority = fs::read(ca).context("--server-ca")?;
        let endpoint = Endpoint::new(host, port.parse()?, token.trim(), &authority)?;
        let processes = self.server_pids.clone();
        Ok(Some(Program::Running(Running {
            endpoint,
            processes,
        })))
    }
}

impl Arguments {
    /// What is measured, and up to how many watchers.
    fn programs(&self) -> Result<Vec<(Program, usize)>> {
        if let Some(running) = self.running.program()? {
            return Ok(vec![(running, usize::MAX)]);
        }
        let mut programs = Vec::new();
        if self.only != Some(Only::Peer) {
            programs.push((self.servers.rhumb()?, usize::MAX));
        }
        if self.only != Some(Only::Rhumb) {
            let peer = self.servers.peer();
            programs.extend(peer.map(|peer| (peer, self.peer_watchers)));
        }
        Ok(programs)
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    ensure!(arguments.rate > 0.0, "--rate is not above zero");
    ensure!(
        !arguments.watchers.contains(&0),
        "--watchers must be at least one each"
    );
    let most = arguments.watchers.iter().max();
    let most = *most.context("--watchers names no number")? as u64;
    let files = machine::raise_open_files()?;
    ensure!(
        most + OTHER_FILES <= files,
        "{most} watchers need more open files than the {files} that are allowed here"
    );
    let mut rounds = Vec::new();
    for (program, watchers_max) in arguments.programs()? {
        let counts = arguments.watchers.iter().copied();
        for watchers in counts.filter(|watchers| *watchers <= watchers_max) {
            eprintln!("{program}, {watchers} watchers");
            let round = Round::run(&arguments, &program, watchers).await?;
            eprintln!("  {round}");
            rounds.push(round);
        }
    }
    report::print(&arguments, &rounds);
    if let Some(file) = &arguments.plot {
        fs::write(file, plot::render(&report::panels(&rounds)))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    match rounds.iter().find(|round| round.is_wrong()) {
        Some(round) => bail!("{round}: {}", round.problems.join("; ")),
        None => Ok(()),
    }
}
