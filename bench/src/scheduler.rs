//! How many pods a second schedulers bind, and whether they put them where they may be.
//!
//! A contestant is a scheduler on an API server, each a process of its own, started anew for each case. The pods of a case
//! are created while the scheduler is held, so that all are there when the clock starts; it ends with the last of them that
//! has a node. Nodes are objects that nobody stands for.

mod bindings;
mod check;
mod objects;
mod process;
mod report;
mod round;
mod workload;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::servers;
use crate::table::Output;
use report::Measured;
use round::Round;
use workload::{Case, Workload};

/// The part of a case that --quick takes.
const QUICK_SCALE: f64 = 0.05;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_value = "rhumb,upstream")]
    only: Vec<Kind>,
    /// Only the workloads whose names contain this.
    #[arg(long)]
    case: Vec<String>,
    /// Where the workloads are.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/scheduler"))]
    workloads: PathBuf,
    /// The share of nodes and pods of each case.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// A twentieth of each case, and each once.
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    /// How long a scheduler may bind the pods of a case; the rate of one that did not finish is that of this time.
    #[arg(long, default_value_t = 60)]
    limit_seconds: u64,
    /// A table for people, or JSON.
    #[arg(short, long, default_value = "table")]
    output: Output,
    /// Draw pods per second into this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// What else to tell rhumb's scheduler when it starts, separated by spaces.
    #[arg(
        long,
        env = "RHUMB_BENCH_SCHEDULER_FLAGS",
        allow_hyphen_values = true,
        default_value = ""
    )]
    scheduler_flags: String,
    /// A kube-scheduler to compare with.
    #[arg(long, env = "RHUMB_BENCH_KUBE_SCHEDULER")]
    kube_scheduler: Option<PathBuf>,
    #[command(flatten)]
    servers: servers::Choice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// `rhumb scheduler` on rhumb.
    Rhumb,
    /// kube-scheduler on kube-apiserver and etcd.
    Upstream,
    /// kube-scheduler on rhumb.
    KubeSchedulerOnRhumb,
    /// `rhumb scheduler` on kube-apiserver and etcd.
    RhumbOnKubeApiserver,
}

/// A scheduler and the server that it is for.
struct Contestant {
    kind: Kind,
    server: servers::Program,
    scheduler: process::Program,
}

impl Contestant {
    /// Whether it is rhumb alone.
    fn is_ours(&self) -> bool {
        self.kind == Kind::Rhumb
    }

    /// Whether it is what to compare with.
    fn is_peer(&self) -> bool {
        self.kind == Kind::Upstream
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            Kind::Rhumb => "rhumb",
            Kind::Upstream => "upstream",
            Kind::KubeSchedulerOnRhumb => "kube-scheduler on rhumb",
            Kind::RhumbOnKubeApiserver => "rhumb on kube-apiserver",
        })
    }
}

impl Arguments {
    fn check(&self) -> Result<()> {
        ensure!(
            self.scale > 0.0 && self.scale <= 1.0,
            "--scale is not above zero and at most one"
        );
        ensure!(self.limit_seconds > 0, "--limit-seconds is zero");
        Ok(())
    }

    fn scale(&self) -> f64 {
        match self.quick {
            true => QUICK_SCALE,
            false => self.scale,
        }
    }

    fn workloads(&self) -> Result<Vec<Workload>> {
        let mut workloads = workload::read_all(&self.workloads)?;
        let is_named =
            |name: &str| self.case.is_empty() || self.case.iter().any(|it| name.contains(it));
        workloads.retain(|workload| is_named(&workload.name));
        ensure!(!workloads.is_empty(), "--case names no workload");
        Ok(workloads)
    }

    fn contestants(&self) -> Result<Vec<Contestant>> {
        let mut contestants = Vec::new();
        for &kind in &self.only {
            let on_rhumb = matches!(kind, Kind::Rhumb | Kind::KubeSchedulerOnRhumb);
            let server = match on_rhumb {
                true => Some(self.servers.rhumb()?),
                false => self.servers.peer(),
            };
            let scheduler = match kind {
                Kind::Rhumb | Kind::RhumbOnKubeApiserver => Some(self.our_scheduler()?),
                Kind::Upstream | Kind::KubeSchedulerOnRhumb => self.kube_scheduler(),
            };
            if let (Some(server), Some(scheduler)) = (server, scheduler) {
                contestants.push(Contestant {
                    kind,
                    server: server.with_bare_nodes(),
                    scheduler,
                });
            }
        }
        ensure!(!contestants.is_empty(), "there is nothing to measure");
        Ok(contestants)
    }

    fn our_scheduler(&self) -> Result<process::Program> {
        let flags = self.scheduler_flags.split_whitespace();
        Ok(process::Program::Rhumb {
            program: self.servers.rhumb_program()?,
            flags: flags.map(str::to_owned).collect(),
        })
    }

    fn kube_scheduler(&self) -> Option<process::Program> {
        if self.kube_scheduler.is_none() {
            eprintln!(
                "RHUMB_BENCH_KUBE_SCHEDULER names no kube-scheduler: nothing to compare with"
            );
        }
        self.kube_scheduler
            .clone()
            .map(process::Program::Kubernetes)
    }

    /// Figures that are compared with each other to a few percent are medians; the peer's are not among them.
    fn repeats(&self, workload: &Workload, contestant: &Contestant) -> usize {
        match contestant.is_ours() && !self.quick {
            true => workload.repeats,
            false => 1,
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    arguments.check()?;
    let contestants = arguments.contestants()?;
    let mut all = Vec::new();
    for workload in arguments.workloads()? {
        eprintln!("{}: {}", workload.name, workload.about);
        let rounds = measure(&arguments, &contestants, &workload).await?;
        all.push(Measured { workload, rounds });
    }
    report::print(&arguments, &all);
    if let Some(file) = &arguments.plot {
        std::fs::write(file, report::plot(&all))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let mut rounds = all.iter().flat_map(|measured| &measured.rounds);
    match rounds.find(|round| round.problems > 0) {
        Some(round) => bail!(
            "{} of {}: {}",
            round.case,
            round.contestant,
            round.problems_shown.join("; ")
        ),
        None => Ok(()),
    }
}

/// All cases of a workload, each on all contestants. Where a contestant is measured several times, the cases have turns, so
/// that whatever else the machine does meanwhile is in all of them.
async fn measure(
    arguments: &Arguments,
    contestants: &[Contestant],
    workload: &Workload,
) -> Result<Vec<Round>> {
    let cases = workload.cases(arguments.scale());
    let mut places: Vec<Vec<Round>> = vec![Vec::new(); cases.len() * contestants.len()];
    for turn in 0..workload.repeats {
        let pairs = cases
            .iter()
            .flat_map(|case| contestants.iter().map(move |contestant| (case, contestant)));
        for (place, (case, contestant)) in places.iter_mut().zip(pairs) {
            if turn < arguments.repeats(workload, contestant) {
                place.push(measure_once(arguments, contestant, workload, case).await?);
            }
        }
    }
    Ok(places.into_iter().filter_map(median).collect())
}

async fn measure_once(
    arguments: &Arguments,
    contestant: &Contestant,
    workload: &Workload,
    case: &Case,
) -> Result<Round> {
    let limit = Duration::from_secs(arguments.limit_seconds);
    let round = round::run(contestant, workload, case, limit)
        .await
        .with_context(|| format!("{} of {contestant}", case.name))?;
    eprintln!(
        "  {}, {contestant}: {}/{} in {:.2} s, {:.1}/s ({:.0} s with all around it)",
        case.name,
        round.bound,
        round.pods,
        round.seconds,
        round.pods_per_second,
        round.took_seconds
    );
    Ok(round)
}

/// The one in the middle by pods per second, or one that broke a constraint if there is any.
fn median(mut rounds: Vec<Round>) -> Option<Round> {
    if let Some(broken) = rounds.iter().position(|round| round.problems > 0) {
        return Some(rounds.swap_remove(broken));
    }
    rounds.sort_by(|one, other| one.pods_per_second.total_cmp(&other.pods_per_second));
    let middle = rounds.len() / 2;
    (!rounds.is_empty()).then(|| rounds.swap_remove(middle))
}
