//! Cost of resource quotas for pod creates, and whether they are enforced exactly under concurrency.
//!
//! Servers are measured one after the other. On each server, rounds alternate between namespaces with quotas and one
//! without, so that background load affects all of them.

mod exactness;
mod quota_test_server;
mod report;
mod response_counts;
mod rounds;
mod writers;

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::servers::{self, ServerProgram};
use crate::table::OutputFormat;
use quota_test_server::QuotaTestServer;
use report::ServerQuotaResults;
use rounds::QuotaCostRounds;
use writers::RoundLimits;

/// Idle time after the start of a server.
const QUIET: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
pub(crate) struct QuotaBenchArguments {
    /// Servers to measure; kube-apiserver only if a binary is given.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "rhumb,rhumb-on-etcd,kube-apiserver"
    )]
    on: Vec<QuotaBenchServer>,
    /// Numbers of quotas in a namespace, in addition to zero.
    #[arg(long, value_delimiter = ',', default_value = "1,50")]
    quotas: Vec<usize>,
    /// Numbers of concurrent writers for the cost measurement.
    #[arg(long, value_delimiter = ',', default_value = "1,4")]
    writers: Vec<usize>,
    /// Number of rounds for each number of quotas.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Maximum number of pods per round.
    #[arg(long, default_value_t = 1000)]
    creates: usize,
    /// Maximum duration of a round.
    #[arg(long, default_value_t = 5)]
    round_seconds: u64,
    /// Number of concurrent writers to one namespace with one quota, for the contention measurement.
    #[arg(long, default_value_t = 16)]
    contenders: usize,
    /// Number of contention rounds.
    #[arg(long, default_value_t = 6)]
    contention_rounds: usize,
    /// Maximum duration of a contention round.
    #[arg(long, default_value_t = 5)]
    contention_seconds: u64,
    /// Maximum number of pods per contention round.
    #[arg(long, default_value_t = 20_000)]
    contention_pods: usize,
    /// Number of exactness runs: concurrent creates against a small quota.
    #[arg(long, default_value_t = 20)]
    exact_repeats: usize,
    /// Number of concurrent creates in an exactness run.
    #[arg(long, default_value_t = 100)]
    exact_creates: usize,
    /// Number of pods that the quota of an exactness run allows.
    #[arg(long, default_value_t = 5)]
    exact_limit: usize,
    /// How long after a round CPU time still counts, because a server may defer quota work.
    #[arg(long, default_value_t = 1000)]
    settle_ms: u64,
    /// Output format.
    #[arg(short, long, default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    servers: servers::ServerArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum QuotaBenchServer {
    Rhumb,
    RhumbOnEtcd,
    KubeApiserver,
}

impl QuotaBenchArguments {
    fn check(&self) -> Result<()> {
        ensure!(!self.on.is_empty(), "--on must list at least one server");
        ensure!(
            !self.quotas.is_empty() && !self.quotas.contains(&0),
            "--quotas must list at least one number, none of them zero"
        );
        ensure!(
            !self.writers.is_empty() && !self.writers.contains(&0),
            "--writers must list at least one number, none of them zero"
        );
        let counts = [
            self.rounds,
            self.creates,
            self.contenders,
            self.contention_rounds,
            self.contention_pods,
            self.exact_repeats,
            self.exact_creates,
        ];
        ensure!(
            !counts.contains(&0),
            "all counts except --exact-limit must be at least 1"
        );
        Ok(())
    }

    fn programs(&self) -> Result<Vec<ServerProgram>> {
        let mut programs = Vec::new();
        for kind in &self.on {
            match kind {
                QuotaBenchServer::Rhumb => programs.push(self.servers.rhumb()?.with_quota_status()),
                QuotaBenchServer::RhumbOnEtcd => {
                    programs.push(self.servers.rhumb_on_etcd()?.with_quota_status());
                }
                QuotaBenchServer::KubeApiserver => programs.extend(self.servers.peer()),
            }
        }
        Ok(programs)
    }

    fn round_limits(&self) -> RoundLimits {
        RoundLimits {
            pods: self.creates,
            time: Duration::from_secs(self.round_seconds),
            settle: Duration::from_millis(self.settle_ms),
        }
    }

    fn contention(&self) -> RoundLimits {
        RoundLimits {
            pods: self.contention_pods,
            time: Duration::from_secs(self.contention_seconds),
            settle: Duration::from_millis(self.settle_ms),
        }
    }
}

pub(crate) async fn run(arguments: QuotaBenchArguments) -> Result<()> {
    arguments.check()?;
    let mut columns = Vec::new();
    for program in arguments.programs()? {
        columns.push(measure(&arguments, &program).await?);
    }
    report::print(&arguments, &columns);
    Ok(())
}

/// Runs all measurements on one server.
async fn measure(
    arguments: &QuotaBenchArguments,
    program: &ServerProgram,
) -> Result<ServerQuotaResults> {
    eprintln!("{program}");
    let mut site = QuotaTestServer::start(program).await?;
    tokio::time::sleep(QUIET).await;
    let mut cost = Vec::new();
    for &writers in &arguments.writers {
        let label = format!("cost-{writers}");
        let mut rounds =
            QuotaCostRounds::prepare(&mut site, &label, writers, &arguments.quotas).await?;
        let (rounds_count, bounds) = (arguments.rounds, arguments.round_limits());
        cost.extend(rounds.measure(&mut site, rounds_count, &bounds).await?);
    }
    let mut rounds =
        QuotaCostRounds::prepare(&mut site, "contention", arguments.contenders, &[1]).await?;
    let (rounds_count, bounds) = (arguments.contention_rounds, arguments.contention());
    let contention = rounds.measure(&mut site, rounds_count, &bounds).await?;
    let exactness = exactness::measure(arguments, &mut site).await?;
    Ok(ServerQuotaResults {
        server: program.to_string(),
        is_peer: matches!(program, ServerProgram::Kubernetes(_)),
        is_enforced: site.is_enforced(),
        cost,
        contention,
        exactness,
    })
}
