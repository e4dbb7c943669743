//! What webhooks add, beside what is wanted.

use serde_json::json;

use super::Arguments;
use super::exclusions::Excluded;
use super::load::Compared;
use super::questions::Column;
use crate::machine;
use crate::table::{self, Output, Table, Target};

/// What a hundred excluded webhooks may add to a write.
const EXCLUDED_US_MAX: f64 = 20.0;

/// The part of what the peer's webhook adds that ours may add.
const ASKED_PART_MAX: f64 = 1.0 / 2.0;

pub(super) fn print(arguments: &Arguments, excluded: &[Excluded], asked: &[Column]) {
    let targets: Vec<Target> = excluded_targets(excluded)
        .chain(asked_targets(asked))
        .collect();
    if arguments.output == Output::Json {
        let report = json!({
            "machine": machine::describe(),
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
    println!("{}", machine::describe());
    println!(
        "medians of {} rounds of {} writes, in turns\n",
        arguments.rounds, arguments.writes
    );
    println!(
        "{} configurations that exclude the write, on rhumb:\n",
        arguments.configurations
    );
    println!("{}", excluded_table(excluded));
    println!("a webhook that is asked:\n");
    println!("{}", asked_table(asked));
    for Column {
        server, webhook, ..
    } in asked
    {
        println!(
            "{server}: {} connections to the webhook, {} calls over HTTP/1.1, {} over HTTP/2",
            webhook.connections, webhook.http1_calls, webhook.http2_calls
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

fn cells(compared: &Compared) -> [String; 6] {
    let Compared {
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

fn excluded_table(excluded: &[Excluded]) -> String {
    let header: Vec<&str> = ["webhooks and write"].into_iter().chain(FIGURES).collect();
    let mut table = Table::new(&header);
    for one in excluded {
        let name = format!("{}, {}", one.flavor.name(), one.work);
        table.row([name].into_iter().chain(cells(&one.compared)));
    }
    table.render()
}

fn asked_table(columns: &[Column]) -> String {
    let header: Vec<&str> = ["server and writers"].into_iter().chain(FIGURES).collect();
    let mut table = Table::new(&header);
    for column in columns {
        for asked in &column.figures {
            let name = format!("{}, {}", column.server, asked.writers);
            table.row([name].into_iter().chain(cells(&asked.compared)));
        }
    }
    table.render()
}

fn excluded_targets(excluded: &[Excluded]) -> impl Iterator<Item = Target> {
    excluded.iter().flat_map(|one| {
        let added = one.compared.added;
        let target = |measure: &str, value: f64| Target {
            what: format!(
                "{measure} that excluded {} webhooks add to {}, over {EXCLUDED_US_MAX} µs",
                one.flavor.name(),
                one.work
            ),
            measured: value / EXCLUDED_US_MAX,
            wanted: 1.0,
        };
        [target("p50", added.p50_us), target("CPU", added.cpu_us)]
    })
}

fn asked_targets(columns: &[Column]) -> impl Iterator<Item = Target> {
    let pairs = match columns {
        [ours, peer] => ours.figures.iter().zip(&peer.figures).collect(),
        _ => Vec::new(),
    };
    pairs.into_iter().flat_map(|(ours, peer)| {
        let target = |measure: &str, ours_us: f64, peer_us: f64| Target {
            what: format!(
                "{measure} that a webhook adds to a create, writers: {}; rhumb over kube-apiserver",
                ours.writers
            ),
            measured: ours_us / peer_us,
            wanted: ASKED_PART_MAX,
        };
        let (ours, peer) = (ours.compared.added, peer.compared.added);
        [
            target("p50", ours.p50_us, peer.p50_us),
            target("CPU", ours.cpu_us, peer.cpu_us),
        ]
    })
}
