//! Cost of listing many pods: by label selector, by field selector, all, and one page.

mod report;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::client::{ApiConnection, ServerEndpoint};
use crate::pods;
use crate::servers::{self, BenchServer, ServerProgram};
use crate::table::OutputFormat;

/// Number of concurrent writers that create the pods.
const WRITERS: usize = 32;

/// Minimum number of repeats of each list.
const REPEATS_MIN: usize = 3;

#[derive(clap::Args)]
pub(crate) struct ListBenchArguments {
    /// Number of pods.
    #[arg(long, default_value_t = 22_000)]
    pods: usize,
    /// Number of pods with the same label value.
    #[arg(long, default_value_t = 19)]
    pods_per_label: usize,
    /// Duration of each list load in seconds.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Output format.
    #[arg(short, long, default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    servers: servers::ServerArguments,
}

/// List request to measure.
struct ListRequest {
    name: String,
    query: String,
    /// Expected number of pods.
    pods: usize,
    /// Target: CPU time relative to kube-apiserver, at most.
    wanted: Option<f64>,
}

/// Cost of one list request.
#[derive(Clone, Debug, Serialize)]
struct ListCost {
    name: String,
    pods: usize,
    bytes: usize,
    repeats: usize,
    cpu_us: f64,
    time_us: f64,
    wanted: Option<f64>,
}

/// Costs of all list requests on one server.
#[derive(Serialize)]
struct ServerListCosts {
    server: String,
    figures: Vec<ListCost>,
}

pub(crate) async fn run(arguments: ListBenchArguments) -> Result<()> {
    let labels = arguments.labels();
    ensure!(
        labels > 0,
        "--pods-per-label must be at least 1 and at most --pods"
    );
    let mut columns = vec![measure(&arguments, &arguments.servers.rhumb()?).await?];
    if let Some(peer) = arguments.servers.peer() {
        columns.push(measure(&arguments, &peer).await?);
    }
    report::print(&arguments, &columns);
    Ok(())
}

impl ListBenchArguments {
    fn labels(&self) -> usize {
        self.pods.checked_div(self.pods_per_label).unwrap_or(0)
    }

    /// Each list without resourceVersion (most recent) and with resourceVersion=0 (any).
    fn lists(&self) -> Vec<ListRequest> {
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
                all.push(ListRequest {
                    name: format!("{name}, {version}"),
                    query: format!("{query}&{parameter}"),
                    pods,
                    wanted,
                });
            }
        }
        // kube-apiserver ignores a limit with resourceVersion=0.
        all.push(ListRequest {
            name: "a page of 500, the latest".into(),
            query: "limit=500".into(),
            pods: self.pods.min(500),
            wanted: None,
        });
        all
    }
}

/// Number of integers below `count` whose remainder modulo `classes` is `rest`.
fn members(count: usize, classes: usize, rest: usize) -> usize {
    count.saturating_sub(rest).div_ceil(classes)
}

async fn measure(
    arguments: &ListBenchArguments,
    program: &ServerProgram,
) -> Result<ServerListCosts> {
    eprintln!("{program}, {} pods", arguments.pods);
    let server = BenchServer::start(program).await?;
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
    Ok(ServerListCosts { server, figures })
}

async fn fill(endpoint: &ServerEndpoint, count: usize, labels: usize) -> Result<()> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = endpoint.connect().await?;
        writers.spawn(async move {
            for index in (writer..count).step_by(WRITERS) {
                let label = index % labels;
                let (path, body) = (pods::collection(label), pods::bound(index, label));
                connection.execute(Method::POST, &path, body).await?;
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
struct ListItems {
    items: Vec<serde::de::IgnoredAny>,
}

async fn repeat(
    server: &BenchServer<'_>,
    connection: &mut ApiConnection,
    list: &ListRequest,
    time: Duration,
) -> Result<ListCost> {
    let path = format!("/api/v1/pods?{}", list.query);
    // The first response is checked and warms up the server.
    let answer = connection.execute(Method::GET, &path, Bytes::new()).await?;
    let items: ListItems = serde_json::from_slice(&answer)?;
    let (got, expected) = (items.items.len(), list.pods);
    ensure!(got == expected, "{path}: {got} pods, not {expected}");
    let (started, before) = (Instant::now(), server.usage()?);
    let mut repeats = 0;
    while started.elapsed() < time || repeats < REPEATS_MIN {
        connection.measure(&path).await?;
        repeats += 1;
    }
    let each = |total: Duration| total.as_secs_f64() * 1e6 / repeats as f64;
    Ok(ListCost {
        name: list.name.clone(),
        pods: got,
        bytes: answer.len(),
        repeats,
        cpu_us: each(server.usage()?.cpu.saturating_sub(before.cpu)),
        time_us: each(started.elapsed()),
        wanted: list.wanted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_count_matches_enumeration() {
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
