//! Prints the results of the API benchmark as Markdown tables.

use std::time::Duration;

use super::load::ApiLoadResult;
use crate::servers::ServerProgram;

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

pub(super) fn print(program: &ServerProgram, columns: &[ApiResultsForObjectCount]) {
    println!("### {program}\n");
    let sizes: Vec<String> = columns
        .iter()
        .map(|column| column.objects.to_string())
        .collect();
    println!("| operation | | {} objects |", sizes.join(" | "));
    println!("|---|---|{}", "---:|".repeat(columns.len()));
    let Some(first) = columns.first() else { return };
    for (name, _) in &first.figures {
        let share = |column: &ApiResultsForObjectCount| match is_list(name) {
            true => column.objects as f64,
            false => 1.0,
        };
        let of = |value: fn(ApiLoadResult) -> f64| {
            columns
                .iter()
                .map(move |column| Some(value(column.figure(name)?) / share(column)))
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

/// Prints kube-apiserver's cost relative to rhumb, for the largest common number of objects.
pub(super) fn compare(ours: &[ApiResultsForObjectCount], peers: &[ApiResultsForObjectCount]) {
    let both = ours.iter().rev().find_map(|ours| {
        let peer = peers.iter().find(|peer| peer.objects == ours.objects)?;
        Some((ours, peer))
    });
    let Some((ours, peer)) = both else { return };
    println!(
        "### kube-apiserver and etcd over rhumb, {} objects\n",
        ours.objects
    );
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
