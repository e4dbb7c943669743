//! Prints the results of the API benchmark as tables, JSON or a chart.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::load::ApiLoadResult;
use crate::bar_chart::{self, BarChart, BarGroup};
use crate::host_info;
use crate::line_chart::short;
use crate::servers::ServerProgram;

/// Results of a server, one for each number of objects.
pub(super) type ApiServerResults = (ServerProgram, Vec<ApiResultsForObjectCount>);

/// Cost of one operation on one server with one number of objects; of lists per object.
#[derive(Serialize, Deserialize)]
pub(super) struct ApiRound {
    server: String,
    objects: usize,
    operation: String,
    time_us: Option<f64>,
    cpu_us: Option<f64>,
}

/// Results for one number of objects.
pub(super) struct ApiResultsForObjectCount {
    objects: usize,
    figures: Vec<(String, ApiLoadResult)>,
    pub(super) first_start: Option<Duration>,
    pub(super) next_start: Option<Duration>,
    pub(super) idle_bytes: Option<u64>,
    pub(super) bytes_per_object: Option<f64>,
    pub(super) json_bytes: Option<usize>,
}

impl ApiResultsForObjectCount {
    pub(super) fn new(objects: usize) -> Self {
        Self {
            objects,
            figures: Vec::new(),
            first_start: None,
            next_start: None,
            idle_bytes: None,
            bytes_per_object: None,
            json_bytes: None,
        }
    }

    pub(super) fn add(&mut self, name: String, figure: ApiLoadResult) {
        eprintln!(
            "  {name}: {:.0}/s, {:.0} µs CPU",
            figure.operations as f64 / figure.elapsed.as_secs_f64(),
            cpu_us(figure)
        );
        self.figures.push((name, figure));
    }

    fn figure(&self, name: &str) -> Option<ApiLoadResult> {
        let found = self.figures.iter().find(|(known, _)| known == name);
        found.map(|(_, figure)| *figure)
    }

    /// Number of units that the cost of an operation is divided by.
    fn share(&self, operation: &str) -> f64 {
        match is_list(operation) {
            true => self.objects as f64,
            false => 1.0,
        }
    }

    /// Target for the memory of an object: 1.5 times its JSON plus 1 KiB.
    fn bytes_wanted(&self) -> Option<f64> {
        self.json_bytes.map(|json| json as f64 * 1.5 + 1024.0)
    }
}

fn cpu_us(figure: ApiLoadResult) -> f64 {
    figure.cpu.as_secs_f64() * 1e6 / figure.operations as f64
}

fn time_us(figure: ApiLoadResult) -> f64 {
    figure.elapsed.as_secs_f64() * 1e6 / figure.operations as f64
}

/// Costs of lists are reported per object, all others per request.
fn is_list(name: &str) -> bool {
    name.starts_with("list")
}

fn row(name: &str, unit: &str, values: impl Iterator<Item = Option<f64>>, digits: usize) {
    let cells: Vec<String> = values
        .map(|value| value.map_or("–".into(), |value| format!("{value:.digits$}")))
        .collect();
    println!("| {name} | {unit} | {} |", cells.join(" | "));
}

pub(super) fn rounds(measured: &[ApiServerResults]) -> Vec<ApiRound> {
    let mut rounds = Vec::new();
    for (program, columns) in measured {
        for column in columns {
            rounds.extend(column.figures.iter().map(|(operation, figure)| {
                let share = column.share(operation);
                ApiRound {
                    server: program.to_string(),
                    objects: column.objects,
                    operation: operation.clone(),
                    time_us: Some(time_us(*figure) / share),
                    cpu_us: Some(cpu_us(*figure) / share),
                }
            }));
        }
    }
    rounds
}

/// Bar chart of time and CPU time by operation, for the largest number of objects that all servers have.
pub(super) fn plot(rounds: &[ApiRound]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for round in rounds {
        if !names.contains(&&*round.server) {
            names.push(&round.server);
        }
    }
    let largest = names.iter().filter_map(|name| {
        let rounds = rounds.iter().filter(|round| round.server == *name);
        rounds.map(|round| round.objects).max()
    });
    let objects = largest.min().unwrap_or(0);
    let rounds = || rounds.iter().filter(|round| round.objects == objects);
    let first = names.first().copied().unwrap_or("");
    let group = |operation: &str, what: &str, cost: fn(&ApiRound) -> Option<f64>| {
        let unit = if is_list(operation) {
            ", per object"
        } else {
            ""
        };
        let value = |name: &&str| {
            let mut rounds = rounds();
            let found = rounds.find(|it| it.server == *name && it.operation == operation);
            found.and_then(cost)
        };
        let values: Vec<Option<f64>> = names.iter().map(value).collect();
        let group = BarGroup {
            label: format!("{what}: {operation}{unit}"),
            values,
        };
        group.values.iter().any(Option::is_some).then_some(group)
    };
    let operations = || {
        rounds()
            .filter(|it| it.server == first)
            .map(|it| &*it.operation)
    };
    let cpu = operations().filter_map(|operation| group(operation, "CPU", |it| it.cpu_us));
    let time = operations().filter_map(|operation| group(operation, "time", |it| it.time_us));
    bar_chart::render(&BarChart {
        title: format!(
            "Server CPU time and elapsed time per request, {} objects, µs",
            short(objects as f64)
        ),
        groups: cpu.chain(time).collect(),
        names: names.iter().map(ToString::to_string).collect(),
    })
}

pub(super) fn print_tables(measured: &[ApiServerResults]) {
    println!("{}\n", host_info::describe());
    for (program, columns) in measured {
        print(program, columns);
    }
    if let Some(((_, ours), others)) = measured.split_first() {
        for (program, peers) in others {
            compare(ours, program, peers);
        }
    }
}

fn print(program: &ServerProgram, columns: &[ApiResultsForObjectCount]) {
    println!("### {program}\n");
    let sizes: Vec<String> = columns
        .iter()
        .map(|column| column.objects.to_string())
        .collect();
    println!("| operation | | {} objects |", sizes.join(" | "));
    println!("|---|---|{}", "---:|".repeat(columns.len()));
    let Some(first) = columns.first() else { return };
    for (name, _) in &first.figures {
        let of = |value: fn(ApiLoadResult) -> f64| {
            columns
                .iter()
                .map(move |column| Some(value(column.figure(name)?) / column.share(name)))
        };
        let (time, cpu) = match is_list(name) {
            true => ("µs an object", "µs CPU an object"),
            false => ("µs", "µs CPU"),
        };
        row(name, time, of(time_us), if is_list(name) { 2 } else { 0 });
        row(name, cpu, of(cpu_us), if is_list(name) { 2 } else { 0 });
    }
    let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    row(
        "memory, idle",
        "MiB",
        columns.iter().map(|c| mib(c.idle_bytes)),
        1,
    );
    row(
        "memory of an object",
        "B",
        columns.iter().map(|c| c.bytes_per_object),
        0,
    );
    row(
        "at most",
        "B",
        columns.iter().map(ApiResultsForObjectCount::bytes_wanted),
        0,
    );
    row(
        "first start",
        "ms",
        columns.iter().map(|c| ms(c.first_start)),
        0,
    );
    row(
        "start with these objects",
        "ms",
        columns.iter().map(|c| ms(c.next_start)),
        0,
    );
    println!();
}

/// Prints the cost of another server relative to rhumb, for the largest common number of objects.
fn compare(
    ours: &[ApiResultsForObjectCount],
    program: &ServerProgram,
    peers: &[ApiResultsForObjectCount],
) {
    let both = ours.iter().rev().find_map(|ours| {
        let peer = peers.iter().find(|peer| peer.objects == ours.objects)?;
        Some((ours, peer))
    });
    let Some((ours, peer)) = both else { return };
    println!("### {program} over rhumb, {} objects\n", ours.objects);
    println!("| operation | time | CPU |");
    println!("|---|---:|---:|");
    for (name, figure) in &ours.figures {
        if let Some(other) = peer.figure(name) {
            let (time, cpu) = (
                time_us(other) / time_us(*figure),
                cpu_us(other) / cpu_us(*figure),
            );
            println!("| {name} | {time:.1} | {cpu:.1} |");
        }
    }
    println!();
    let ratio = |name: &str, ours: Option<f64>, peer: Option<f64>| {
        if let (Some(ours), Some(peer)) = (ours, peer) {
            println!("{name}: {:.1}x", peer / ours);
        }
    };
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    ratio(
        "first start",
        seconds(ours.first_start),
        seconds(peer.first_start),
    );
    ratio(
        "start with the objects",
        seconds(ours.next_start),
        seconds(peer.next_start),
    );
    ratio(
        "memory, idle",
        bytes(ours.idle_bytes),
        bytes(peer.idle_bytes),
    );
    ratio(
        "memory of an object",
        ours.bytes_per_object,
        peer.bytes_per_object,
    );
}
