//! What was measured, for people and for machines, beside what is wanted.

use serde_json::json;

use super::Arguments;
use super::load::Deliveries;
use super::round::{Load, Round};
use crate::machine;
use crate::plot::{Panel, Series};
use crate::table::{self, Output, Table, Target};

/// Of what kube-apiserver with etcd takes for a pod that is created and delivered.
const CPU_WANTED: f64 = 1.0 / 25.0;
const LAG_WANTED: f64 = 1.0 / 50.0;
const MEMORY_WANTED: f64 = 1.0 / 3.0;

/// How much more CPU time a pod may take with many watchers than with few.
const GROWTH_WANTED: f64 = 1.3;

pub(super) fn print(arguments: &Arguments, rounds: &[Round]) {
    let targets = match arguments.churn {
        // With churn it is the streams that count.
        true => Vec::new(),
        false => targets(arguments, rounds),
    };
    match arguments.output {
        Output::Table => print_tables(arguments, rounds, &targets),
        Output::Json => print_json(arguments, rounds, &targets),
    }
}

fn print_json(arguments: &Arguments, rounds: &[Round], targets: &[Target]) {
    let report = json!({
        "machine": machine::describe(),
        "http": arguments.http.as_str(),
        "churn": arguments.churn,
        "wanted_per_second": arguments.rate,
        "rounds": rounds,
        "targets": targets,
    });
    println!("{report:#}");
}

fn print_tables(arguments: &Arguments, rounds: &[Round], targets: &[Target]) {
    let (http, rate) = (arguments.http.as_str(), arguments.rate);
    println!("{}", machine::describe());
    println!(
        "Each watcher on its own TLS connection, HTTP/{http}; {rate} changes a second wanted.\n"
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

fn delivery_table(arguments: &Arguments, rounds: &[Round]) -> String {
    let names = load_names(arguments);
    let mut table = Table::new(&[
        "server",
        "watchers",
        "load",
        "pods/s",
        "delivered",
        "missed",
        "wrong",
        "begun anew",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "max ms",
        "p99 ms after answer",
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

fn delivery_row(round: &Round, name: &str, load: &Load, deliveries: Deliveries) -> [String; 16] {
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

fn stalled_table(arguments: &Arguments, rounds: &[Round]) -> Option<String> {
    let beside = format!("beside {} that do not read", arguments.stalled);
    let mut table = Table::new(&["p99 lag, ms", "watchers", "alone", &beside]);
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

fn churn_table(rounds: &[Round]) -> String {
    let mut table = Table::new(&[
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

fn targets(arguments: &Arguments, rounds: &[Round]) -> Vec<Target> {
    let (peers, ours): (Vec<&Round>, Vec<&Round>) = rounds.iter().partition(|it| it.is_peer);
    let problems = ours.iter().map(|round| round.problems.len()).sum::<usize>();
    let mut targets = vec![Target {
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
    // The comparison is for the most watchers that both had.
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

/// The loads of two rounds side by side, and what they are called.
fn pairs<'a>(
    arguments: &Arguments,
    one: &'a Round,
    other: &'a Round,
) -> impl Iterator<Item = (String, &'a Load, &'a Load)> {
    let loads = one.loads().zip(other.loads());
    let named = load_names(arguments).into_iter().zip(loads);
    named.map(|(name, (one, other))| (name, one, other))
}

/// What the loads of a round are called, in their order.
fn load_names(arguments: &Arguments) -> [String; 2] {
    let paced = format!("{}/s", arguments.rate);
    [paced, "the most".to_owned()]
}

fn growth<'a>(
    arguments: &Arguments,
    fewest: &'a Round,
    most: &'a Round,
) -> impl Iterator<Item = Target> {
    let (from, to) = (fewest.watchers, most.watchers);
    pairs(arguments, fewest, most).map(move |(load, fewest, most)| Target {
        what: format!("growth of CPU a pod from {from} to {to} watchers, {load}"),
        measured: most.cpu_us_per_change / fewest.cpu_us_per_change,
        wanted: GROWTH_WANTED,
    })
}

fn comparison(arguments: &Arguments, ours: &Round, peer: &Round) -> Vec<Target> {
    let watchers = ours.watchers;
    let ratio = |what: &str, ours: f64, peer: f64, wanted| Target {
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

/// What is drawn: a line for each server.
pub(super) fn panels(rounds: &[Round]) -> Vec<Panel> {
    let lines = |value: fn(&Round) -> Option<f64>| {
        let mut lines: Vec<Series> = Vec::new();
        for round in rounds {
            let Some(value) = value(round) else { continue };
            let point = (round.watchers as f64, value);
            match lines.iter_mut().find(|line| line.name == round.server) {
                Some(line) => line.points.push(point),
                None => lines.push(Series {
                    name: round.server.clone(),
                    points: vec![point],
                }),
            }
        }
        lines
    };
    let panel = |title: &str, lines: Vec<Series>| Panel {
        title: title.into(),
        x_label: "watchers".into(),
        series: lines,
    };
    vec![
        panel(
            "CPU time for each pod created and delivered, µs",
            lines(|round| Some(round.hardest().cpu_us_per_change)),
        ),
        panel(
            "p99 of the time until its watcher knows, ms",
            lines(|round| Some(round.hardest().deliveries.as_ref()?.lag.p99_ms)),
        ),
    ]
}
