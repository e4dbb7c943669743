//! Prints cost and exactness of quotas, and compares them with the performance targets.

use serde::Serialize;
use serde_json::json;

use super::QuotaBenchArguments;
use super::exactness::{ExactnessRun, QuotaExactness};
use super::response_counts::ResponseCounts;
use super::rounds::QuotaCostRow;
use crate::host_info;
use crate::stats::median;
use crate::table::{self, MarkdownTable, OutputFormat, PerformanceTarget};

/// Limit for the CPU time of a create with quotas, relative to one without.
const CPU_MAX: f64 = 1.15;

/// Minimum create rate with a quota under contention, relative to the rate without.
const RATE_MIN: f64 = 0.7;

/// Results of one server.
#[derive(Serialize)]
pub(super) struct ServerQuotaResults {
    pub(super) server: String,
    pub(super) is_peer: bool,
    pub(super) is_enforced: bool,
    pub(super) cost: Vec<QuotaCostRow>,
    pub(super) contention: Vec<QuotaCostRow>,
    pub(super) exactness: QuotaExactness,
}

pub(super) fn print(arguments: &QuotaBenchArguments, columns: &[ServerQuotaResults]) {
    let ours = columns.iter().filter(|column| !column.is_peer);
    let targets: Vec<PerformanceTarget> = ours.flat_map(targets).collect();
    if arguments.output == OutputFormat::Json {
        let report = json!({
            "machine": host_info::describe(),
            "rounds": arguments.rounds,
            "creates": arguments.creates,
            "settle_ms": arguments.settle_ms,
            "contention_rounds": arguments.contention_rounds,
            "servers": columns,
            "targets": targets,
        });
        println!("{report:#}");
        return;
    }
    println!("{}\n", host_info::describe());
    for column in columns.iter().filter(|column| !column.is_enforced) {
        println!(
            "{} does not enforce its quotas: their cost is unknown.\n",
            column.server
        );
    }
    println!(
        "creates of pods, medians of {} rounds of at most {} in {} s; CPU also of the {} ms after them:\n",
        arguments.rounds, arguments.creates, arguments.round_seconds, arguments.settle_ms
    );
    println!("{}", rows_table(columns, |column| &column.cost));
    println!(
        "{} writers of one namespace, medians of {} rounds of at most {} in {} s:\n",
        arguments.contenders,
        arguments.contention_rounds,
        arguments.contention_pods,
        arguments.contention_seconds
    );
    println!("{}", rows_table(columns, |column| &column.contention));
    println!(
        "{} at once against a quota of {}, {} times:\n",
        arguments.exact_creates, arguments.exact_limit, arguments.exact_repeats
    );
    println!("{}", exactness_table(columns));
    print_examples(columns);
    print_comparison(columns);
    if !targets.is_empty() {
        println!("{}", table::targets(&targets));
    }
}

fn rows_table(
    columns: &[ServerQuotaResults],
    rows: fn(&ServerQuotaResults) -> &Vec<QuotaCostRow>,
) -> String {
    let mut table = MarkdownTable::new(&[
        "server, writers, quotas",
        "pods/s",
        "over none",
        "p50 ms",
        "p99 ms",
        "CPU µs",
        "over none",
        "etcd CPU µs",
        "over none",
        "pods",
        "refused",
    ]);
    let etcd = |value: Option<f64>, digits: usize| {
        value.map_or("–".into(), |value| format!("{value:.digits$}"))
    };
    for column in columns {
        for row in rows(column) {
            let (figure, over) = (&row.figure, &row.over_none);
            table.row([
                format!("{}, {}, {}", column.server, row.writers, row.quotas),
                format!("{:.0}", figure.per_second),
                format!("{:.2}", over.per_second),
                format!("{:.2}", row.latency.p50_ms),
                format!("{:.2}", row.latency.p99_ms),
                format!("{:.0}", figure.cpu_us),
                format!("{:.2}", over.cpu_us),
                etcd(figure.etcd_cpu_us, 0),
                etcd(over.etcd_cpu_us, 2),
                row.pods.to_string(),
                row.answers.refusals(),
            ]);
        }
    }
    table.render()
}

fn exactness_table(columns: &[ServerQuotaResults]) -> String {
    let mut table = MarkdownTable::new(&[
        "server",
        "not exact",
        "201",
        "403",
        "409",
        "others",
        "stored",
        "p50 ms",
        "max ms",
    ]);
    for column in columns {
        let repeats = &column.exactness.repeats;
        let range = |count: fn(&ExactnessRun) -> usize| {
            let counts = repeats.iter().map(count);
            let (least, most) = (counts.clone().min(), counts.max());
            match (least.unwrap_or(0), most.unwrap_or(0)) {
                (least, most) if least == most => most.to_string(),
                (least, most) => format!("{least} to {most}"),
            }
        };
        let times: Vec<f64> = repeats.iter().map(|repeat| repeat.ms).collect();
        let longest = times.iter().copied().fold(0.0, f64::max);
        table.row([
            column.server.clone(),
            column.exactness.inexact().to_string(),
            range(|repeat| repeat.created),
            range(|repeat| repeat.forbidden),
            range(|repeat| repeat.conflicts),
            range(|repeat| repeat.others),
            range(|repeat| repeat.stored),
            format!("{:.1}", median(times)),
            format!("{longest:.1}"),
        ]);
    }
    table.render()
}

/// Prints an example message for each unsuccessful status code.
fn print_examples(columns: &[ServerQuotaResults]) {
    for column in columns {
        let rows = column.cost.iter().chain(&column.contention);
        let mut all = ResponseCounts::default();
        for answers in rows.map(|row| &row.answers) {
            all.merge(answers.clone());
        }
        all.merge(column.exactness.answers.clone());
        for (code, message) in all.examples() {
            println!("{}, {code}: {message}", column.server);
        }
    }
    println!();
}

/// Prints kube-apiserver's cost relative to rhumb.
fn print_comparison(columns: &[ServerQuotaResults]) {
    let Some(peer) = columns.iter().find(|column| column.is_peer) else {
        return;
    };
    if columns.iter().all(|column| column.is_peer) {
        return;
    }
    let mut table =
        MarkdownTable::new(&["writers, quotas", "CPU", "CPU with etcd", "p50", "pods/s"]);
    for ours in columns.iter().filter(|column| !column.is_peer) {
        let pairs = all_rows(ours).zip(all_rows(peer));
        for (own, other) in pairs {
            let with_etcd =
                |row: &QuotaCostRow| row.figure.cpu_us + row.figure.etcd_cpu_us.unwrap_or(0.0);
            let name = format!("{}, {}, {}", ours.server, own.writers, own.quotas);
            let ratios = [
                other.figure.cpu_us / own.figure.cpu_us,
                with_etcd(other) / with_etcd(own),
                other.latency.p50_ms / own.latency.p50_ms,
                own.figure.per_second / other.figure.per_second,
            ];
            let cells = ratios.map(|ratio| format!("{ratio:.1}"));
            table.row([name].into_iter().chain(cells));
        }
    }
    println!("{} over rhumb; pods/s the other way round:\n", peer.server);
    println!("{}", table.render());
}

fn all_rows(column: &ServerQuotaResults) -> impl Iterator<Item = &QuotaCostRow> {
    column.cost.iter().chain(&column.contention)
}

/// Cost targets apply only to a server that enforces its quotas.
fn targets(column: &ServerQuotaResults) -> Vec<PerformanceTarget> {
    let server = &column.server;
    let exactness = PerformanceTarget {
        what: format!("repeats in which a quota was not kept exactly; {server}"),
        measured: column.exactness.inexact() as f64,
        wanted: 0.0,
    };
    if !column.is_enforced {
        return vec![exactness];
    }
    let with_quotas = |row: &&QuotaCostRow| row.quotas > 0;
    let cost = column
        .cost
        .iter()
        .filter(with_quotas)
        .map(|row| PerformanceTarget {
            what: format!(
                "CPU of a create over one without quotas, quotas: {}, writers: {}; {server}",
                row.quotas, row.writers
            ),
            measured: row.over_none.cpu_us,
            wanted: CPU_MAX,
        });
    let contention = column.contention.iter().filter(with_quotas);
    let contention = contention.map(|row| PerformanceTarget {
        what: format!(
            "rate without a quota over the rate with one, writers: {}; {server}",
            row.writers
        ),
        measured: 1.0 / row.over_none.per_second,
        wanted: 1.0 / RATE_MIN,
    });
    cost.chain(contention).chain([exactness]).collect()
}
