//! What quotas cost those who make pods, and whether they are kept when many make pods at once.
//!
//! One server is measured after the other, each alone beside the load. On a server, namespaces with quotas and one
//! without have turns, many times, so that whatever else the machine does meanwhile is in all of them.

mod answers;
mod exactness;
mod report;
mod rounds;
mod site;
mod writers;

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::servers::{self, Program};
use crate::table::Output;
use report::Column;
use rounds::Rounds;
use site::Site;
use writers::Bounds;

/// Until a server has done what it does after its start.
const QUIET: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What is measured; kube-apiserver only where there is one.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "rhumb,rhumb-on-etcd,kube-apiserver"
    )]
    on: Vec<Kind>,
    /// How many quotas count a pod, beside none.
    #[arg(long, value_delimiter = ',', default_value = "1,50")]
    quotas: Vec<usize>,
    /// How many write at a time for what a quota costs.
    #[arg(long, value_delimiter = ',', default_value = "1,4")]
    writers: Vec<usize>,
    /// How often each number of quotas has its turn.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// How many pods are made in a turn, if there is time.
    #[arg(long, default_value_t = 1000)]
    creates: usize,
    /// How long a turn is at most.
    #[arg(long, default_value_t = 5)]
    turn_seconds: u64,
    /// How many write at a time to one namespace with one quota.
    #[arg(long, default_value_t = 16)]
    contenders: usize,
    /// How often they have their turn.
    #[arg(long, default_value_t = 6)]
    contention_rounds: usize,
    /// How long their turn is.
    #[arg(long, default_value_t = 5)]
    contention_seconds: u64,
    /// How many pods they make in a turn at most.
    #[arg(long, default_value_t = 20_000)]
    contention_pods: usize,
    /// How often many write at once against a quota that lets few in.
    #[arg(long, default_value_t = 20)]
    exact_repeats: usize,
    /// How many write at once.
    #[arg(long, default_value_t = 100)]
    exact_creates: usize,
    /// How many of them the quota lets in.
    #[arg(long, default_value_t = 5)]
    exact_limit: usize,
    /// For how long after a turn CPU time still counts: a server may put off what a quota makes it do.
    #[arg(long, default_value_t = 1000)]
    settle_ms: u64,
    /// A table for people, or JSON.
    #[arg(short, long, default_value = "table")]
    output: Output,
    #[command(flatten)]
    servers: servers::Choice,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Rhumb,
    RhumbOnEtcd,
    KubeApiserver,
}

impl Arguments {
    fn check(&self) -> Result<()> {
        ensure!(!self.on.is_empty(), "--on names no server");
        ensure!(
            !self.quotas.is_empty() && !self.quotas.contains(&0),
            "--quotas names no number, or zero"
        );
        ensure!(
            !self.writers.is_empty() && !self.writers.contains(&0),
            "--writers names no number, or zero"
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
        ensure!(!counts.contains(&0), "only the limit may be zero");
        Ok(())
    }

    fn programs(&self) -> Result<Vec<Program>> {
        let mut programs = Vec::new();
        for kind in &self.on {
            match kind {
                Kind::Rhumb => programs.push(self.servers.rhumb()?.with_quota_status()),
                Kind::RhumbOnEtcd => {
                    programs.push(self.servers.rhumb_on_etcd()?.with_quota_status());
                }
                Kind::KubeApiserver => programs.extend(self.servers.peer()),
            }
        }
        Ok(programs)
    }

    fn turn(&self) -> Bounds {
        Bounds {
            pods: self.creates,
            time: Duration::from_secs(self.turn_seconds),
            settle: Duration::from_millis(self.settle_ms),
        }
    }

    fn contention(&self) -> Bounds {
        Bounds {
            pods: self.contention_pods,
            time: Duration::from_secs(self.contention_seconds),
            settle: Duration::from_millis(self.settle_ms),
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    arguments.check()?;
    let mut columns = Vec::new();
    for program in arguments.programs()? {
        columns.push(measure(&arguments, &program).await?);
    }
    report::print(&arguments, &columns);
    Ok(())
}

/// Everything about one server.
async fn measure(arguments: &Arguments, program: &Program) -> Result<Column> {
    eprintln!("{program}");
    let mut site = Site::start(program).await?;
    tokio::time::sleep(QUIET).await;
    let mut cost = Vec::new();
    for &writers in &arguments.writers {
        let label = format!("cost-{writers}");
        let mut rounds = Rounds::prepare(&mut site, &label, writers, &arguments.quotas).await?;
        let (turns, bounds) = (arguments.rounds, arguments.turn());
        cost.extend(rounds.measure(&mut site, turns, &bounds).await?);
    }
    let mut rounds = Rounds::prepare(&mut site, "contention", arguments.contenders, &[1]).await?;
    let (turns, bounds) = (arguments.contention_rounds, arguments.contention());
    let contention = rounds.measure(&mut site, turns, &bounds).await?;
    let exactness = exactness::measure(arguments, &mut site).await?;
    Ok(Column {
        server: program.to_string(),
        is_peer: matches!(program, Program::Kubernetes(_)),
        is_enforced: site.is_enforced(),
        cost,
        contention,
        exactness,
    })
}
