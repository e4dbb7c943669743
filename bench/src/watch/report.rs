//! Prints the results of the watch benchmark as tables, JSON or charts, and compares them with the targets.

use serde_json::json;

use super::WatchBenchArguments;
use super::load::DeliveryStats;
use super::round::{WatchLoadResult, WatchRound};
use crate::host_info;
use crate::line_chart::{PlotPanel, PlotSeries};
use crate::table::{self, MarkdownTable, OutputFormat, PerformanceTarget};

/// Targets relative to kube-apiserver with etcd, per created and delivered pod.
const CPU_WANTED: f64 = 1.0 / 25.0;
const LAG_WANTED: f64 = 1.0 / 50.0;
const MEMORY_WANTED: f64 = 1.0 / 3.0;

/// Maximum growth of the CPU time per pod from few to many watchers.
const GROWTH_WANTED: f64 = 1.3;

pub(super) fn print(arguments: &WatchBenchArguments, rounds: &[WatchRound]) {
    let targets = match arguments.churn {
        // With churn only correctness is checked.
        true => Vec::new(),
        false => targets(arguments, rounds),
    };
    match arguments.output {
        OutputFormat::Table => print_tables(arguments, rounds, &targets),
        OutputFormat::Json => print_json(arguments, rounds, &targets),
    }
}

fn print_json(
    arguments: &WatchBenchArguments,
    rounds: &[WatchRound],
    targets: &[PerformanceTarget],
) {
    let report = json!({
        "machine": host_info::describe(),
        "http": arguments.http.as_str(),
        "churn": arguments.churn,
        "wanted_per_second": arguments.rate,
        "rounds": rounds,
        "targets": targets,
    });
    println!("{report:#}");
}

fn print_tables(
    arguments: &WatchBenchArguments,
    rounds: &[WatchRound],
    targets: &[PerformanceTarget],
) {
    let (http, rate) = (arguments.http.as_str(), arguments.rate);
    println!("{}", host_info::describe());
    println!(
        "Each watcher on its own TLS connection, HTTP/{http}; target rate {rate} changes per second.\n"
    );
    if arguments.churn {
        println!("{}", churn_table(rounds));
    } else {
        println!("{}", delivery_table(arguments, rounds));
        if let Some(table) = stalled_table(arguments, rounds) {
            println!("{table}");
        }
    }
    if !targets.is_empty() {
        println!("{}", table::targets(targets));
    }
    for round in rounds {
        for problem in &round.problems {
            println!("{}, {} watchers: {problem}", round.server, round.watchers);
        }
    }
}

fn delivery_table(arguments: &WatchBenchArguments, rounds: &[WatchRound]) -> String {
    let names = load_names(arguments);
    let mut table = MarkdownTable::new(&[
        "server",
        "watchers",
        "load",
        "pods/s",
        "delivered",
        "missed",
        "wrong",
        "restarted watches",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "max ms",
        "p99 ms after response",
        "CPU µs/pod",
        "generator's",
        "KB/watcher",
    ]);
    for round in rounds {
        for (name, load) in names.iter().zip(round.loads()) {
            if let Some(deliveries) = load.deliveries {
                table.row(delivery_row(round, name, load, deliveries));
            }
        }
    }
    table.render()
}

fn delivery_row(
    round: &WatchRound,
    name: &str,
    load: &WatchLoadResult,
    deliveries: DeliveryStats,
) -> [String; 16] {
    let (lag, after) = (deliveries.lag, deliveries.lag_after_answer);
    [
        round.server.clone(),
        round.watchers.to_string(),
        name.to_owned(),
        format!("{:.0}", load.per_second),
        deliveries.delivered.to_string(),
        deliveries.missed.to_string(),
        (deliveries.wrong + deliveries.repeated).to_string(),
        load.resumed.to_string(),
        format!("{:.2}", lag.p50_ms),
        format!("{:.2}", lag.p90_ms),
        format!("{:.2}", lag.p99_ms),
        format!("{:.1}", lag.max_ms),
        format!("{:.2}", after.p99_ms),
        format!("{:.0}", load.cpu_us_per_change),
        format!("{:.0}", load.generator_cpu_us_per_change),
        format!("{:.1}", round.bytes_per_watcher / 1e3),
    ]
}

fn stalled_table(arguments: &WatchBenchArguments, rounds: &[WatchRound]) -> Option<String> {
    let with_stalled = format!("with {} stalled", arguments.stalled);
    let mut table = MarkdownTable::new(&["p99 lag, ms", "watchers", "alone", &with_stalled]);
    let mut any = false;
    for round in rounds {
        if let (Some(alone), Some(stalled)) = (&round.paced.deliveries, round.stalled) {
            any = true;
            table.row([
                round.server.clone(),
                round.watchers.to_string(),
                format!("{:.2}", alone.lag.p99_ms),
                format!("{:.2}", stalled.p99_ms),
            ]);
        }
    }
    any.then(|| table.render())
}

fn churn_table(rounds: &[WatchRound]) -> String {
    let mut table = MarkdownTable::new(&[
        "server",
        "watchers",
        "changes",
        "changes/s",
        "events",
        "bookmarks",
        "CPU µs/change",
        "generator's",
        "KB/watcher",
        "streams",
    ]);
    for round in rounds {
        let verdict = if round.problems.is_empty() {
            "all right"
        } else {
            "WRONG"
        };
        table.row([
            round.server.clone(),
            round.watchers.to_string(),
            round.paced.changes.to_string(),
            format!("{:.0}", round.paced.per_second),
            round.paced.events.to_string(),
            round.paced.bookmarks.to_string(),
            format!("{:.0}", round.paced.cpu_us_per_change),
            format!("{:.0}", round.paced.generator_cpu_us_per_change),
            format!("{:.1}", round.bytes_per_watcher / 1e3),
            verdict.into(),
        ]);
    }
    table.render()
}

fn targets(arguments: &WatchBenchArguments, rounds: &[WatchRound]) -> Vec<PerformanceTarget> {
    let (peers, ours): (Vec<&WatchRound>, Vec<&WatchRound>) =
        rounds.iter().partition(|it| it.is_peer);
    let problems = ours.iter().map(|round| round.problems.len()).sum::<usize>();
    let mut targets = vec![PerformanceTarget {
        what: "events that were missed, wrong or repeated, and watches that ended".into(),
        measured: problems as f64,
        wanted: 0.0,
    }];
    let fewest = ours.iter().min_by_key(|round| round.watchers);
    let most = ours.iter().max_by_key(|round| round.watchers);
    if let (Some(fewest), Some(most)) = (fewest, most)
        && fewest.watchers < most.watchers
    {
        targets.extend(growth(arguments, fewest, most));
    }
    // Compare at the largest common number of watchers.
    let both = ours
        .iter()
        .filter_map(|ours| {
            let peer = peers.iter().find(|peer| peer.watchers == ours.watchers)?;
            Some((ours, peer))
        })
        .max_by_key(|(ours, _)| ours.watchers);
    if let Some((ours, peer)) = both {
        targets.extend(comparison(arguments, ours, peer));
    }
    targets
}

/// Pairs the loads of two rounds, with their names.
fn pairs<'a>(
    arguments: &WatchBenchArguments,
    one: &'a WatchRound,
    other: &'a WatchRound,
) -> impl Iterator<Item = (String, &'a WatchLoadResult, &'a WatchLoadResult)> {
    let loads = one.loads().zip(other.loads());
    let named = load_names(arguments).into_iter().zip(loads);
    named.map(|(name, (one, other))| (name, one, other))
}

/// Names of the loads of a round, in order.
fn load_names(arguments: &WatchBenchArguments) -> [String; 2] {
    let paced = format!("{}/s", arguments.rate);
    [paced, "the most".to_owned()]
}

fn growth<'a>(
    arguments: &WatchBenchArguments,
    fewest: &'a WatchRound,
    most: &'a WatchRound,
) -> impl Iterator<Item = PerformanceTarget> {
    let (from, to) = (fewest.watchers, most.watchers);
    pairs(arguments, fewest, most).map(move |(load, fewest, most)| PerformanceTarget {
        what: format!("growth of CPU a pod from {from} to {to} watchers, {load}"),
        measured: most.cpu_us_per_change / fewest.cpu_us_per_change,
        wanted: GROWTH_WANTED,
    })
}

fn comparison(
    arguments: &WatchBenchArguments,
    ours: &WatchRound,
    peer: &WatchRound,
) -> Vec<PerformanceTarget> {
    let watchers = ours.watchers;
    let ratio = |what: &str, ours: f64, peer: f64, wanted| PerformanceTarget {
        what: format!("{what}, {watchers} watchers, rhumb over kube-apiserver"),
        measured: ours / peer,
        wanted,
    };
    let mut targets = vec![ratio(
        "memory of an idle watcher",
        ours.bytes_per_watcher,
        peer.bytes_per_watcher,
        MEMORY_WANTED,
    )];
    for (load, ours, peer) in pairs(arguments, ours, peer) {
        let (ours_us, peer_us) = (ours.cpu_us_per_change, peer.cpu_us_per_change);
        targets.push(ratio(
            &format!("CPU a pod, {load}"),
            ours_us,
            peer_us,
            CPU_WANTED,
        ));
        if let (Some(ours), Some(peer)) = (&ours.deliveries, &peer.deliveries) {
            let (ours, peer) = (ours.lag.p99_ms, peer.lag.p99_ms);
            targets.push(ratio(&format!("p99 lag, {load}"), ours, peer, LAG_WANTED));
        }
    }
    targets
}

/// Chart panels with one line per server.
pub(super) fn panels(rounds: &[WatchRound]) -> Vec<PlotPanel> {
    let lines = |value: fn(&WatchRound) -> Option<f64>| {
        let mut lines: Vec<PlotSeries> = Vec::new();
        for round in rounds {
            let Some(value) = value(round) else { continue };
            let point = (round.watchers as f64, value);
            match lines.iter_mut().find(|line| line.name == round.server) {
                Some(line) => line.points.push(point),
                None => lines.push(PlotSeries {
                    name: round.server.clone(),
                    points: vec![point],
                }),
            }
        }
        lines
    };
    let panel = |title: &str, lines: Vec<PlotSeries>| PlotPanel {
        title: title.into(),
        x_label: "watchers".into(),
        series: lines,
    };
    vec![
        panel(
            "Server CPU time per delivered event, µs",
            lines(|round| round.hardest().cpu_us_per_event()),
        ),
        panel(
            "p99 latency from create to event, ms",
            lines(|round| Some(round.hardest().deliveries.as_ref()?.lag.p99_ms)),
        ),
    ]
}
