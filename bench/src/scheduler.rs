//! Scheduler benchmark: pods bound per second, and whether all placements satisfy the hard constraints.
//!
//! A scheduler and an API server are started as separate processes for each case. The pods of a case are created while
//! the scheduler is paused, so that all exist when the clock starts; it stops when the last one is bound. Nodes are API
//! objects without a kubelet. The cases follow upstream's scheduler_perf.

mod bindings;
mod objects;
mod placement_check;
mod report;
mod round;
mod scheduler_process;
mod workload;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::recorded;
use crate::servers;
use crate::table::OutputFormat;
use report::WorkloadResult;
use round::SchedulerRound;
use workload::{SchedulerWorkload, WorkloadCase};

/// Scale of --quick.
const QUICK_SCALE: f64 = 0.05;

#[derive(clap::Args)]
pub(crate) struct SchedulerBenchArguments {
    /// Combinations of scheduler and API server to measure.
    #[arg(long, value_delimiter = ',', default_value = "rhumb,upstream")]
    only: Vec<SchedulerCombination>,
    /// Only workloads whose names contain this text.
    #[arg(long)]
    case: Vec<String>,
    /// Directory of the workload files.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/scheduler"))]
    workloads: PathBuf,
    /// Fraction of the nodes and pods of each case.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Run each case once at 1/20 of its size.
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    /// Time limit of a case; if it is reached, the rate is that of the pods bound by then.
    #[arg(long, default_value_t = 60)]
    limit_seconds: u64,
    /// Output format.
    #[arg(short, long, default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    chart: recorded::ChartArguments,
    /// Additional flags for rhumb's scheduler, separated by spaces.
    #[arg(
        long,
        env = "RHUMB_BENCH_SCHEDULER_FLAGS",
        allow_hyphen_values = true,
        default_value = ""
    )]
    scheduler_flags: String,
    /// Path of a kube-scheduler binary to compare with.
    #[arg(long, env = "RHUMB_BENCH_KUBE_SCHEDULER")]
    kube_scheduler: Option<PathBuf>,
    #[command(flatten)]
    servers: servers::ServerArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SchedulerCombination {
    /// `rhumb scheduler` on rhumb.
    Rhumb,
    /// kube-scheduler on kube-apiserver and etcd.
    Upstream,
    /// kube-scheduler on rhumb.
    KubeSchedulerOnRhumb,
    /// `rhumb scheduler` on kube-apiserver and etcd.
    RhumbOnKubeApiserver,
}

/// Scheduler and the API server it runs against.
struct SchedulerUnderTest {
    kind: SchedulerCombination,
    server: servers::ServerProgram,
    scheduler: scheduler_process::SchedulerProgram,
}

impl SchedulerUnderTest {
    /// Whether both are rhumb's.
    fn is_ours(&self) -> bool {
        self.kind == SchedulerCombination::Rhumb
    }

    /// Whether both are upstream's.
    fn is_peer(&self) -> bool {
        self.kind == SchedulerCombination::Upstream
    }
}

impl fmt::Display for SchedulerUnderTest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.kind {
            SchedulerCombination::Rhumb => "rhumb",
            SchedulerCombination::Upstream => "kube-scheduler",
            SchedulerCombination::KubeSchedulerOnRhumb => "kube-scheduler on rhumb",
            SchedulerCombination::RhumbOnKubeApiserver => "rhumb on kube-apiserver",
        })
    }
}

impl SchedulerBenchArguments {
    fn check(&self) -> Result<()> {
        ensure!(
            self.scale > 0.0 && self.scale <= 1.0,
            "--scale must be greater than 0 and at most 1"
        );
        ensure!(self.limit_seconds > 0, "--limit-seconds must be at least 1");
        Ok(())
    }

    fn scale(&self) -> f64 {
        match self.quick {
            true => QUICK_SCALE,
            false => self.scale,
        }
    }

    fn workloads(&self) -> Result<Vec<SchedulerWorkload>> {
        let mut workloads = workload::read_all(&self.workloads)?;
        let is_named =
            |name: &str| self.case.is_empty() || self.case.iter().any(|it| name.contains(it));
        workloads.retain(|workload| is_named(&workload.name));
        ensure!(!workloads.is_empty(), "--case matches no workload");
        Ok(workloads)
    }

    fn contestants(&self) -> Result<Vec<SchedulerUnderTest>> {
        let mut contestants = Vec::new();
        for &kind in &self.only {
            let on_rhumb = matches!(
                kind,
                SchedulerCombination::Rhumb | SchedulerCombination::KubeSchedulerOnRhumb
            );
            let server = match on_rhumb {
                true => Some(self.servers.rhumb()?),
                false => self.servers.peer(),
            };
            let scheduler = match kind {
                SchedulerCombination::Rhumb | SchedulerCombination::RhumbOnKubeApiserver => {
                    Some(self.our_scheduler()?)
                }
                SchedulerCombination::Upstream | SchedulerCombination::KubeSchedulerOnRhumb => {
                    self.kube_scheduler()
                }
            };
            if let (Some(server), Some(scheduler)) = (server, scheduler) {
                contestants.push(SchedulerUnderTest {
                    kind,
                    server: server.with_bare_nodes(),
                    scheduler,
                });
            }
        }
        ensure!(
            !contestants.is_empty(),
            "no scheduler to measure: --only needs a kube-scheduler or kube-apiserver binary"
        );
        Ok(contestants)
    }

    fn our_scheduler(&self) -> Result<scheduler_process::SchedulerProgram> {
        let flags = self.scheduler_flags.split_whitespace();
        Ok(scheduler_process::SchedulerProgram::Rhumb {
            program: self.servers.rhumb_program()?,
            flags: flags.map(str::to_owned).collect(),
        })
    }

    fn kube_scheduler(&self) -> Option<scheduler_process::SchedulerProgram> {
        if self.kube_scheduler.is_none() {
            eprintln!("RHUMB_BENCH_KUBE_SCHEDULER is not set: measuring without a comparison");
        }
        self.kube_scheduler
            .clone()
            .map(scheduler_process::SchedulerProgram::Kubernetes)
    }

    /// rhumb's results are medians, because some targets compare them to a few percent; upstream's are single runs.
    fn repeats(&self, workload: &SchedulerWorkload, contestant: &SchedulerUnderTest) -> usize {
        match contestant.is_ours() && !self.quick {
            true => workload.repeats,
            false => 1,
        }
    }
}

pub(crate) async fn run(arguments: SchedulerBenchArguments) -> Result<()> {
    arguments.check()?;
    if let Some(file) = &arguments.chart.recorded {
        let rounds: Vec<SchedulerRound> = recorded::read_rounds(file)?;
        return write_chart(&arguments, &rounds.iter().collect::<Vec<_>>());
    }
    let contestants = arguments.contestants()?;
    let mut all = Vec::new();
    for workload in arguments.workloads()? {
        eprintln!("{}: {}", workload.name, workload.about);
        let rounds = measure(&arguments, &contestants, &workload).await?;
        all.push(WorkloadResult { workload, rounds });
    }
    report::print(&arguments, &all);
    let rounds: Vec<&SchedulerRound> = all.iter().flat_map(|measured| &measured.rounds).collect();
    write_chart(&arguments, &rounds)?;
    match rounds.iter().find(|round| round.problems > 0) {
        Some(round) => bail!(
            "{} of {}: {}",
            round.case,
            round.contestant,
            round.problems_shown.join("; ")
        ),
        None => Ok(()),
    }
}

fn write_chart(arguments: &SchedulerBenchArguments, rounds: &[&SchedulerRound]) -> Result<()> {
    arguments.chart.write_chart(|| report::plot(rounds))
}

/// Runs all cases of a workload on all schedulers. Repeats alternate between the cases, so that background load affects
/// all of them.
async fn measure(
    arguments: &SchedulerBenchArguments,
    contestants: &[SchedulerUnderTest],
    workload: &SchedulerWorkload,
) -> Result<Vec<SchedulerRound>> {
    let cases = workload.cases(arguments.scale());
    let mut places: Vec<Vec<SchedulerRound>> = vec![Vec::new(); cases.len() * contestants.len()];
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
    arguments: &SchedulerBenchArguments,
    contestant: &SchedulerUnderTest,
    workload: &SchedulerWorkload,
    case: &WorkloadCase,
) -> Result<SchedulerRound> {
    let limit = Duration::from_secs(arguments.limit_seconds);
    let round = round::run(contestant, workload, case, limit)
        .await
        .with_context(|| format!("{} of {contestant}", case.name))?;
    eprintln!(
        "  {}, {contestant}: {}/{} in {:.2} s, {:.1}/s ({:.0} s including setup)",
        case.name,
        round.bound,
        round.pods,
        round.seconds,
        round.pods_per_second,
        round.took_seconds
    );
    Ok(round)
}

/// Median round by pods per second, or a round with a broken constraint if there is one.
fn median(mut rounds: Vec<SchedulerRound>) -> Option<SchedulerRound> {
    if let Some(broken) = rounds.iter().position(|round| round.problems > 0) {
        return Some(rounds.swap_remove(broken));
    }
    rounds.sort_by(|one, other| one.pods_per_second.total_cmp(&other.pods_per_second));
    let middle = rounds.len() / 2;
    (!rounds.is_empty()).then(|| rounds.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_shows_the_recorded_results() {
        recorded::assert_chart_is_current("scheduler", |rounds: &[SchedulerRound]| {
            report::plot(&rounds.iter().collect::<Vec<_>>())
        });
    }
}
