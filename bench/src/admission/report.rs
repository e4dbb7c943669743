//! Prints what webhooks add to a write, and compares it with the performance targets.

use serde_json::json;

use super::AdmissionBenchArguments;
use super::called_webhooks::CalledWebhookResults;
use super::excluded_webhooks::ExcludedWebhookCost;
use super::load::WriteCostComparison;
use crate::host_info;
use crate::table::{self, MarkdownTable, OutputFormat, PerformanceTarget};

/// Limit for what a hundred excluded webhooks add to a write.
const EXCLUDED_US_MAX: f64 = 20.0;

/// Limit for what a called webhook adds on rhumb, relative to kube-apiserver.
const ASKED_PART_MAX: f64 = 1.0 / 2.0;

pub(super) fn print(
    arguments: &AdmissionBenchArguments,
    excluded: &[ExcludedWebhookCost],
    asked: &[CalledWebhookResults],
) {
    let targets: Vec<PerformanceTarget> = excluded_targets(excluded)
        .chain(called_webhook_targets(asked))
        .collect();
    if arguments.output == OutputFormat::Json {
        let report = json!({
            "machine": host_info::describe(),
            "rounds": arguments.rounds,
            "writes": arguments.writes,
            "configurations": arguments.configurations,
            "excluded": excluded,
            "asked": asked,
            "targets": targets,
        });
        println!("{report:#}");
        return;
    }
    println!("{}", host_info::describe());
    println!(
        "medians of {} alternating rounds of {} writes\n",
        arguments.rounds, arguments.writes
    );
    println!(
        "{} configurations that exclude the write, on rhumb:\n",
        arguments.configurations
    );
    println!("{}", excluded_table(excluded));
    println!("a webhook that is called for the write:\n");
    println!("{}", called_webhook_table(asked));
    for column in asked {
        let (server, http, seen) = (&column.server, column.http, column.webhook);
        println!(
            "{server}, a webhook with HTTP/{http}: {} calls over {} connections",
            seen.calls, seen.connections
        );
    }
    println!("\n{}", table::targets(&targets));
}

const FIGURES: [&str; 6] = [
    "p50 µs without",
    "with",
    "added",
    "CPU µs without",
    "with",
    "added",
];

fn cells(compared: &WriteCostComparison) -> [String; 6] {
    let WriteCostComparison {
        without,
        with,
        added,
    } = compared;
    [
        without.p50_us,
        with.p50_us,
        added.p50_us,
        without.cpu_us,
        with.cpu_us,
        added.cpu_us,
    ]
    .map(|value| format!("{value:.1}"))
}

fn excluded_table(excluded: &[ExcludedWebhookCost]) -> String {
    let header: Vec<&str> = ["webhooks and write"].into_iter().chain(FIGURES).collect();
    let mut table = MarkdownTable::new(&header);
    for one in excluded {
        let name = format!("{}, {}", one.webhook_type.name(), one.work);
        table.row([name].into_iter().chain(cells(&one.compared)));
    }
    table.render()
}

fn called_webhook_table(columns: &[CalledWebhookResults]) -> String {
    let header: Vec<&str> = ["server, writers and HTTP"]
        .into_iter()
        .chain(FIGURES)
        .collect();
    let mut table = MarkdownTable::new(&header);
    for column in columns {
        for asked in &column.figures {
            let name = format!("{}, {}, {}", column.server, asked.writers, column.http);
            table.row([name].into_iter().chain(cells(&asked.compared)));
        }
    }
    table.render()
}

fn excluded_targets(excluded: &[ExcludedWebhookCost]) -> impl Iterator<Item = PerformanceTarget> {
    excluded.iter().flat_map(|one| {
        let added = one.compared.added;
        let target = |measure: &str, value: f64| PerformanceTarget {
            what: format!(
                "{measure} that excluded {} webhooks add to {}, over {EXCLUDED_US_MAX} µs",
                one.webhook_type.name(),
                one.work
            ),
            measured: value / EXCLUDED_US_MAX,
            wanted: 1.0,
        };
        [target("p50", added.p50_us), target("CPU", added.cpu_us)]
    })
}

/// Results of rhumb and kube-apiserver for the same webhook are adjacent.
fn called_webhook_targets(columns: &[CalledWebhookResults]) -> Vec<PerformanceTarget> {
    let mut targets = Vec::new();
    for pair in columns.windows(2) {
        let [ours, peer] = pair else { continue };
        if ours.http != peer.http {
            continue;
        }
        for (own, other) in ours.figures.iter().zip(&peer.figures) {
            let (added, others) = (own.compared.added, other.compared.added);
            for (measure, ratio) in [
                ("p50", added.p50_us / others.p50_us),
                ("CPU", added.cpu_us / others.cpu_us),
            ] {
                targets.push(PerformanceTarget {
                    what: format!(
                        "{measure} that a webhook with HTTP/{} adds to a create, writers: {}; rhumb over kube-apiserver",
                        ours.http, own.writers
                    ),
                    measured: ratio,
                    wanted: ASKED_PART_MAX,
                });
            }
        }
    }
    targets
}
