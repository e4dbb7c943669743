//! Latency and CPU time of API requests, and whether they grow with the number of stored objects.
//!
//! Servers run as separate processes and are reached over TLS. CPU time is the server's only.

mod load;
mod report;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::host_info;
use crate::recorded;
use crate::servers::{self, BenchServer, ServerProgram};
use crate::table::OutputFormat;
use load::ApiLoadGenerator;
use report::{ApiResultsForObjectCount, ApiRound};

#[derive(clap::Args)]
pub(crate) struct ApiBenchArguments {
    /// Numbers of objects, ascending.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000")]
    objects: Vec<usize>,
    /// Numbers of concurrent writers.
    #[arg(long, value_delimiter = ',', default_value = "16,64")]
    writers: Vec<usize>,
    /// Approximate size of an object as JSON.
    #[arg(long, default_value_t = 1300)]
    object_bytes: usize,
    #[command(flatten)]
    servers: servers::ServerArguments,
    /// Also measure rhumb on etcd.
    #[arg(long)]
    with_etcd: bool,
    /// Largest number of objects for kube-apiserver and for rhumb on etcd.
    #[arg(long, default_value_t = 10_000)]
    peer_objects: usize,
    /// Output format.
    #[arg(short, long, default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    chart: recorded::ChartArguments,
}

pub(crate) async fn run(arguments: ApiBenchArguments) -> Result<()> {
    if let Some(file) = &arguments.chart.recorded {
        return write_chart(&arguments, &recorded::read_rounds(file)?);
    }
    ensure!(
        !arguments.objects.is_empty(),
        "--objects must list at least one number"
    );
    let rhumb = arguments.servers.rhumb()?;
    let columns = measure(&arguments, &rhumb, usize::MAX).await?;
    let mut measured = vec![(rhumb, columns)];
    if arguments.with_etcd {
        let on_etcd = arguments.servers.rhumb_on_etcd()?;
        let columns = measure(&arguments, &on_etcd, arguments.peer_objects).await?;
        measured.push((on_etcd, columns));
    }
    if let Some(peer) = arguments.servers.peer() {
        let peers = measure(&arguments, &peer, arguments.peer_objects).await?;
        measured.push((peer, peers));
    }
    let rounds = report::rounds(&measured);
    match arguments.output {
        OutputFormat::Table => report::print_tables(&measured),
        OutputFormat::Json => {
            let report = json!({"machine": host_info::describe(), "rounds": rounds});
            println!("{report:#}");
        }
    }
    write_chart(&arguments, &rounds)
}

fn write_chart(arguments: &ApiBenchArguments, rounds: &[ApiRound]) -> Result<()> {
    arguments.chart.write_chart(|| report::plot(rounds))
}

/// Results for each number of objects.
async fn measure(
    arguments: &ApiBenchArguments,
    program: &ServerProgram,
    objects_max: usize,
) -> Result<Vec<ApiResultsForObjectCount>> {
    let mut columns = Vec::new();
    let sizes = arguments.objects.iter().copied();
    for objects in sizes.filter(|objects| *objects <= objects_max) {
        eprintln!("{program}, {objects} objects");
        columns.push(column(arguments, program, objects).await?);
    }
    Ok(columns)
}

async fn column(
    arguments: &ApiBenchArguments,
    program: &ServerProgram,
    objects: usize,
) -> Result<ApiResultsForObjectCount> {
    let (last, first) = arguments
        .writers
        .split_last()
        .context("--writers must list at least one number")?;
    let mut column = ApiResultsForObjectCount::new(objects);
    for &writers in first {
        let server = BenchServer::start(program).await?;
        let load = ApiLoadGenerator::new(&server, arguments.object_bytes);
        let figure = load.create(objects, writers).await?;
        column.add(format!("create, {writers} writers"), figure);
    }
    // The server of the last writer count is used for all other loads.
    let server = BenchServer::start(program).await?;
    column.first_start = Some(server.ready_in);
    tokio::time::sleep(load::QUIET).await;
    let idle = server.usage()?;
    column.idle_bytes = Some(idle.resident_bytes);
    let load = ApiLoadGenerator::new(&server, arguments.object_bytes);
    let figure = load.create(objects, *last).await?;
    column.add(format!("create, {last} writers"), figure);
    tokio::time::sleep(load::QUIET).await;
    let grown = server.usage()?.resident_bytes;
    column.bytes_per_object =
        Some(grown.saturating_sub(idle.resident_bytes) as f64 / objects as f64);
    column.json_bytes = Some(load.json_bytes().await?);
    column.add("get".into(), load.get(objects).await?);
    column.add("update".into(), load.update(objects, 0).await?);
    column.add("patch".into(), load.patch(objects).await?);
    column.add(
        "update, with 10 watchers of everything".into(),
        load.watched_updates(objects).await?,
    );
    for (name, query) in load::LISTS {
        column.add((*name).into(), load.list(query).await?);
    }
    column.add("list in pages of 500".into(), load.list_in_pages().await?);
    let again = server.start_again().await?;
    column.next_start = Some(again.ready_in);
    let load = ApiLoadGenerator::new(&again, arguments.object_bytes);
    column.add("delete".into(), load.delete(objects).await?);
    Ok(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_shows_the_recorded_results() {
        recorded::assert_chart_is_current("api", |rounds: &[ApiRound]| report::plot(rounds));
    }
}
