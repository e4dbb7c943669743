//! Prints the cost of the lists and compares it with the performance targets.

use serde_json::json;

use super::{ListBenchArguments, ServerListCosts};
use crate::host_info;
use crate::table::{self, MarkdownTable, OutputFormat, PerformanceTarget};

pub(super) fn print(arguments: &ListBenchArguments, columns: &[ServerListCosts]) {
    let targets = targets(columns);
    if arguments.output == OutputFormat::Json {
        let report = json!({
            "machine": host_info::describe(),
            "pods": arguments.pods,
            "servers": columns,
            "targets": targets,
        });
        println!("{report:#}");
        return;
    }
    println!("{}, {} pods\n", host_info::describe(), arguments.pods);
    println!("{}", cost_table(columns));
    if !targets.is_empty() {
        println!("{}", table::targets(&targets));
    }
}

fn cost_table(columns: &[ServerListCosts]) -> String {
    let mut header = vec!["list".to_owned(), "pods".to_owned()];
    for ServerListCosts { server, .. } in columns {
        header.extend([
            format!("{server}, CPU µs"),
            "time µs".into(),
            "kB".into(),
            "repeats".into(),
        ]);
    }
    let ratio = columns.len() == 2;
    if ratio {
        header.push("CPU ratio".into());
    }
    let mut table = MarkdownTable::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    let Some(first) = columns.first() else {
        return table.render();
    };
    for (number, list) in first.figures.iter().enumerate() {
        let mut row = vec![list.name.clone(), list.pods.to_string()];
        let figures = || columns.iter().filter_map(|it| it.figures.get(number));
        for figure in figures() {
            row.extend([
                format!("{:.1}", figure.cpu_us),
                format!("{:.1}", figure.time_us),
                format!("{:.1}", figure.bytes as f64 / 1e3),
                figure.repeats.to_string(),
            ]);
        }
        if let (true, Some(other)) = (ratio, figures().nth(1)) {
            row.push(format!("{:.1}", other.cpu_us / list.cpu_us));
        }
        table.row(row);
    }
    table.render()
}

fn targets(columns: &[ServerListCosts]) -> Vec<PerformanceTarget> {
    let [ours, peer] = columns else {
        return Vec::new();
    };
    let pairs = ours.figures.iter().zip(&peer.figures);
    pairs
        .filter_map(|(ours, peer)| {
            Some(PerformanceTarget {
                what: format!("CPU of a list: {}; rhumb over kube-apiserver", ours.name),
                measured: ours.cpu_us / peer.cpu_us,
                wanted: ours.wanted?,
            })
        })
        .collect()
}
