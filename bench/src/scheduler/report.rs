//! Prints the results of the scheduler benchmark as tables, JSON or a chart, and compares them with the targets.

use serde::Serialize;
use serde_json::json;

use super::SchedulerBenchArguments;
use super::round::SchedulerRound;
use super::workload::SchedulerWorkload;
use crate::bar_chart::{self, BarChart, BarGroup};
use crate::host_info;
use crate::table::{MarkdownTable, OutputFormat};

/// All rounds of one workload.
pub(super) struct WorkloadResult {
    pub(super) workload: SchedulerWorkload,
    /// Ordered by case, then by scheduler.
    pub(super) rounds: Vec<SchedulerRound>,
}

impl WorkloadResult {
    fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = self.rounds.iter().map(|round| &*round.case).collect();
        cases.dedup();
        cases
    }

    fn ours(&self) -> impl Iterator<Item = &SchedulerRound> {
        self.rounds.iter().filter(|round| round.is_ours)
    }

    fn peer(&self, case: &str) -> Option<&SchedulerRound> {
        let mut rounds = self.rounds.iter();
        rounds.find(|round| round.is_peer && round.case == case)
    }
}

/// Performance target and whether it is met.
#[derive(Serialize)]
struct TargetResult {
    what: String,
    measured: f64,
    wanted: f64,
    /// Whether the target is a minimum; otherwise it is a maximum.
    at_least: bool,
    met: bool,
}

impl TargetResult {
    fn at_least(what: String, measured: f64, wanted: f64) -> Self {
        Self {
            what,
            measured,
            wanted,
            at_least: true,
            met: measured >= wanted,
        }
    }

    fn at_most(what: String, measured: f64, wanted: f64) -> Self {
        Self {
            what,
            measured,
            wanted,
            at_least: false,
            met: measured <= wanted,
        }
    }
}

fn verdicts(measured: &WorkloadResult) -> Vec<TargetResult> {
    let wanted = &measured.workload.wanted;
    let mut verdicts = Vec::new();
    for round in measured.ours() {
        let case = &round.case;
        if let (Some(times), Some(peer)) = (wanted.times_peer, measured.peer(case)) {
            let ratio = round.pods_per_second / peer.pods_per_second;
            verdicts.push(TargetResult::at_least(
                format!("{case}: times upstream"),
                ratio,
                times,
            ));
        }
        if let Some(rate) = wanted.pods_per_second {
            let what = format!("{case}: pods/s");
            verdicts.push(TargetResult::at_least(what, round.pods_per_second, rate));
        }
    }
    let (first, last) = (measured.ours().next(), measured.ours().last());
    if let (Some(growth), Some(first), Some(last)) = (wanted.time_growth, first, last) {
        let what = format!(
            "{}: time for a pod, last over first",
            measured.workload.name
        );
        let grown = last.ms_per_pod() / first.ms_per_pod();
        verdicts.push(TargetResult::at_most(what, grown, growth));
    }
    verdicts
}

pub(super) fn print(arguments: &SchedulerBenchArguments, all: &[WorkloadResult]) {
    let verdicts: Vec<TargetResult> = match arguments.scale() < 1.0 {
        // Targets apply only to cases at full size.
        true => Vec::new(),
        false => all.iter().flat_map(verdicts).collect(),
    };
    let rounds: Vec<&SchedulerRound> = all.iter().flat_map(|it| &it.rounds).collect();
    if arguments.output == OutputFormat::Json {
        let report = json!({
            "machine": host_info::describe(),
            "scale": arguments.scale(),
            "limit_seconds": arguments.limit_seconds,
            "rounds": rounds,
            "targets": verdicts,
        });
        println!("{report:#}");
        return;
    }
    println!("{}\n", host_info::describe());
    println!(
        "Binding starts when all pods exist and is limited to {} s; times to bind count from that start.\n",
        arguments.limit_seconds
    );
    println!("{}", rounds_table(&rounds));
    println!("{}", comparison_table(all, &contestants(&rounds)));
    if !verdicts.is_empty() {
        println!("{}", verdicts_table(&verdicts));
    }
    for round in rounds.iter().filter(|round| round.problems > 0) {
        println!(
            "{} of {} broke {} constraints: {}",
            round.case,
            round.contestant,
            round.problems,
            round.problems_shown.join("; ")
        );
    }
}

fn rounds_table(rounds: &[&SchedulerRound]) -> String {
    let mut table = MarkdownTable::new(&[
        "case",
        "contestant",
        "pods/s",
        "bound",
        "of",
        "seconds",
        "p50 ms",
        "p99 ms",
        "CPU ms a pod, scheduler",
        "apiserver",
        "etcd",
        "peak MiB, scheduler",
        "broken",
    ]);
    for round in rounds {
        let etcd = round.etcd_cpu_ms;
        table.row([
            round.case.clone(),
            round.contestant.clone(),
            format!("{:.1}", round.pods_per_second),
            round.bound.to_string(),
            round.pods.to_string(),
            format!("{:.2}", round.seconds),
            format!("{:.0}", round.time_to_bind.p50_ms),
            format!("{:.0}", round.time_to_bind.p99_ms),
            format!("{:.3}", round.scheduler_cpu_ms),
            format!("{:.3}", round.apiserver_cpu_ms),
            etcd.map_or("–".into(), |ms| format!("{ms:.3}")),
            format!("{:.0}", round.scheduler_peak_mib),
            round.problems.to_string(),
        ]);
    }
    table.render()
}

/// Pods per second of each case and scheduler.
fn comparison_table(all: &[WorkloadResult], names: &[&str]) -> String {
    let mut header = vec!["case"];
    header.extend(names.iter().copied());
    header.extend(["rhumb over upstream", "floor of upstream's CI"]);
    let mut table = MarkdownTable::new(&header);
    for measured in all {
        for case in measured.cases() {
            let mut cells = vec![case.to_owned()];
            let rates = rates(measured, case, names);
            cells.extend(rates.into_iter().map(|rate| {
                rate.map_or("–".into(), |(rate, is_finished)| {
                    let mark = if is_finished { "" } else { " (not finished)" };
                    format!("{rate:.1}{mark}")
                })
            }));
            let ours = measured.ours().find(|round| round.case == case);
            let ratio = ours.zip(measured.peer(case));
            cells.push(ratio.map_or("–".into(), |(ours, peer)| {
                format!("{:.1}", ours.pods_per_second / peer.pods_per_second)
            }));
            let floor = measured.workload.floor;
            cells.push(floor.map_or(String::new(), |floor| format!("{floor:.0}")));
            table.row(cells);
        }
    }
    table.render()
}

/// Names of the schedulers, in the order of measurement.
fn contestants<'a>(rounds: &[&'a SchedulerRound]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for round in rounds {
        if !names.contains(&&*round.contestant) {
            names.push(&round.contestant);
        }
    }
    names
}

/// Pods per second of each scheduler in a case, and whether it bound all pods.
fn rates(measured: &WorkloadResult, case: &str, names: &[&str]) -> Vec<Option<(f64, bool)>> {
    let of = |name: &&str| {
        let mut rounds = measured.rounds.iter();
        let round = rounds.find(|round| round.case == case && round.contestant == *name)?;
        Some((round.pods_per_second, round.is_finished()))
    };
    names.iter().map(of).collect()
}

fn verdicts_table(verdicts: &[TargetResult]) -> String {
    let mut table = MarkdownTable::new(&["wanted", "measured", "limit", ""]);
    for verdict in verdicts {
        let bound = if verdict.at_least { "≥" } else { "≤" };
        table.row([
            verdict.what.clone(),
            format!("{:.2}", verdict.measured),
            format!("{bound} {}", verdict.wanted),
            if verdict.met { "met" } else { "not met" }.into(),
        ]);
    }
    table.render()
}

/// Bar chart of pods per second for all cases and schedulers.
pub(super) fn plot(rounds: &[&SchedulerRound]) -> String {
    let names = contestants(rounds);
    let mut cases: Vec<&str> = rounds.iter().map(|round| &*round.case).collect();
    cases.dedup();
    let rate = |case: &str, name: &str| {
        let mut rounds = rounds.iter();
        let round = rounds.find(|round| round.case == case && round.contestant == name)?;
        Some(round.pods_per_second)
    };
    let groups = cases.iter().map(|case| BarGroup {
        label: (*case).to_owned(),
        values: names.iter().map(|name| rate(case, name)).collect(),
    });
    bar_chart::render(&BarChart {
        title: "Pods bound per second".into(),
        groups: groups.collect(),
        names: names.iter().map(ToString::to_string).collect(),
    })
}
