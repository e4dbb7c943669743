//! What lists of many pods cost: by a label, by a field, whole, and in pages.

mod report;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::client::{Connection, Endpoint};
use crate::pods;
use crate::servers::{self, Program, Server};
use crate::table::Output;

/// How many write at a time while the pods are created.
const WRITERS: usize = 32;

/// How often each list is asked for at least.
const REPEATS_MIN: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many pods there are.
    #[arg(long, default_value_t = 22_000)]
    pods: usize,
    /// How many of them have the same label.
    #[arg(long, default_value_t = 19)]
    pods_per_label: usize,
    /// How long each list is asked for again and again.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// A table for people, or JSON.
    #[arg(short, long, default_value = "table")]
    output: Output,
    #[command(flatten)]
    servers: servers::Choice,
}

/// A list that is asked for.
struct List {
    name: String,
    query: String,
    /// How many pods it has.
    pods: usize,
    /// At most this part of what the peer takes.
    wanted: Option<f64>,
}

/// What one list took.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    name: String,
    pods: usize,
    bytes: usize,
    repeats: usize,
    cpu_us: f64,
    time_us: f64,
    wanted: Option<f64>,
}

/// All lists of one server.
#[derive(Serialize)]
struct Column {
    server: String,
    figures: Vec<Figure>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let labels = arguments.labels();
    ensure!(
        labels > 0,
        "--pods must be at least as many as --pods-per-label, which is not zero"
    );
    let mut columns = vec![measure(&arguments, &arguments.servers.rhumb()?).await?];
    if let Some(peer) = arguments.servers.peer() {
        columns.push(measure(&arguments, &peer).await?);
    }
    report::print(&arguments, &columns);
    Ok(())
}

impl Arguments {
    fn labels(&self) -> usize {
        self.pods.checked_div(self.pods_per_label).unwrap_or(0)
    }

    /// Each once for the latest state and once for any.
    fn lists(&self) -> Vec<List> {
        let label = self.labels() / 2;
        let node = pods::NODES / 2;
        let by_label = pods::selector(label);
        let by_node = format!("fieldSelector=spec.nodeName%3D{}", pods::node(node));
        let lists = [
            (
                "by a label",
                by_label,
                members(self.pods, self.labels(), label),
                Some(1.0 / 100.0),
            ),
            (
                "by spec.nodeName",
                by_node,
                members(self.pods, pods::NODES, node),
                None,
            ),
            ("everything", String::new(), self.pods, Some(1.0 / 10.0)),
        ];
        let mut all = Vec::new();
        for (name, query, pods, wanted) in lists {
            for (version, parameter) in [("the latest", ""), ("any", "resourceVersion=0")] {
                all.push(List {
                    name: format!("{name}, {version}"),
                    query: format!("{query}&{parameter}"),
                    pods,
                    wanted,
                });
            }
        }
        // With resourceVersion=0 a limit means nothing: upstream gives everything.
        all.push(List {
            name: "a page of 500, the latest".into(),
            query: "limit=500".into(),
            pods: self.pods.min(500),
            wanted: None,
        });
        all
    }
}

/// How many numbers below `count` leave `rest` when divided by `classes`.
fn members(count: usize, classes: usize, rest: usize) -> usize {
    count.saturating_sub(rest).div_ceil(classes)
}

async fn measure(arguments: &Arguments, program: &Program) -> Result<Column> {
    eprintln!("{program}, {} pods", arguments.pods);
    let server = Server::start(program).await?;
    let mut connection = server.endpoint.connect().await?;
    pods::create_namespaces(&mut connection).await?;
    fill(&server.endpoint, arguments.pods, arguments.labels()).await?;
    let mut figures = Vec::new();
    for list in arguments.lists() {
        let time = Duration::from_secs(arguments.seconds);
        let figure = repeat(&server, &mut connection, &list, time).await?;
        eprintln!("  {}: {:.0} µs CPU", figure.name, figure.cpu_us);
        figures.push(figure);
    }
    let server = program.to_string();
    Ok(Column { server, figures })
}

async fn fill(endpoint: &Endpoint, count: usize, labels: usize) -> Result<()> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = endpoint.connect().await?;
        writers.spawn(async move {
            for index in (writer..count).step_by(WRITERS) {
                let label = index % labels;
                let (path, body) = (pods::collection(label), pods::bound(index, label));
                connection.ask(Method::POST, &path, body).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = writers.join_next().await {
        done??;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Items {
    items: Vec<serde::de::IgnoredAny>,
}

async fn repeat(
    server: &Server<'_>,
    connection: &mut Connection,
    list: &List,
    time: Duration,
) -> Result<Figure> {
    let path = format!("/api/v1/pods?{}", list.query);
    // The first answer is looked at, and brings the server to where it stays.
    let answer = connection.ask(Method::GET, &path, Bytes::new()).await?;
    let items: Items = serde_json::from_slice(&answer)?;
    let (got, expected) = (items.items.len(), list.pods);
    ensure!(got == expected, "{path}: {got} pods, not {expected}");
    let (begun, before) = (Instant::now(), server.usage()?);
    let mut repeats = 0;
    while begun.elapsed() < time || repeats < REPEATS_MIN {
        connection.measure(&path).await?;
        repeats += 1;
    }
    let each = |total: Duration| total.as_secs_f64() * 1e6 / repeats as f64;
    Ok(Figure {
        name: list.name.clone(),
        pods: got,
        bytes: answer.len(),
        repeats,
        cpu_us: each(server.usage()?.cpu.saturating_sub(before.cpu)),
        time_us: each(begun.elapsed()),
        wanted: list.wanted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_as_many_as_one_counts() {
        for (count, classes, rest) in [
            (22_000, 1157, 578),
            (22_000, 200, 100),
            (10, 3, 0),
            (2, 5, 4),
        ] {
            let counted = (0..count).filter(|number| number % classes == rest).count();
            assert_eq!(members(count, classes, rest), counted);
        }
    }
}
