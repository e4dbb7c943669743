//! Time to delete a namespace with many objects, and the latency of other clients meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::client::{ApiConnection, ServerEndpoint};
use crate::servers::{self, BenchServer};
use crate::stats::Percentiles;
use crate::table::{MarkdownTable, OutputFormat};

const NAMESPACE: &str = "/api/v1/namespaces/full";
const PROBED_COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 32;
/// Interval between the requests of the probing client.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const DELETION_TIMEOUT: Duration = Duration::from_secs(600);
/// Resources of the objects in the namespace, round-robin.
const RESOURCES: [&str; 4] = ["configmaps", "secrets", "services", "serviceaccounts"];

#[derive(clap::Args)]
pub(crate) struct NamespaceBenchArguments {
    /// Number of objects in the namespace.
    #[arg(long, default_value_t = 50_000)]
    objects: usize,
    /// Duration of the baseline measurement, before the deletion.
    #[arg(long, default_value_t = 10)]
    quiet_seconds: u64,
    /// Output format.
    #[arg(short, long, default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    servers: servers::ServerArguments,
}

/// Request latency of a client in another namespace.
#[derive(Serialize)]
struct ProbeLatency {
    read: Percentiles,
    write: Percentiles,
}

#[derive(Serialize)]
struct NamespaceDeletionReport {
    objects: usize,
    seconds: f64,
    cpu_seconds: f64,
    quiet: ProbeLatency,
    meanwhile: ProbeLatency,
}

pub(crate) async fn run(arguments: NamespaceBenchArguments) -> Result<()> {
    let program = arguments.servers.rhumb_with_controllers()?;
    let server = BenchServer::start(&program).await?;
    let endpoint = &server.endpoint;
    eprintln!("{program}, {} objects", arguments.objects);
    fill(endpoint, arguments.objects).await?;
    let mut connection = endpoint.connect().await?;
    let map = json!({"metadata": {"name": "probe"}}).to_string();
    connection
        .execute(Method::POST, PROBED_COLLECTION, map.into())
        .await?;
    let stop = CancellationToken::new();
    let probe = tokio::spawn(probe(endpoint.connect().await?, stop.clone()));
    sleep(Duration::from_secs(arguments.quiet_seconds)).await;
    stop.cancel();
    let quiet = probe.await??;

    let stop = CancellationToken::new();
    let probe = tokio::spawn(self::probe(endpoint.connect().await?, stop.clone()));
    let (started, before) = (Instant::now(), server.usage()?);
    connection
        .execute(Method::DELETE, NAMESPACE, Bytes::new())
        .await?;
    while is_there(&mut connection).await? {
        ensure!(
            started.elapsed() < DELETION_TIMEOUT,
            "timed out waiting for the namespace to be deleted"
        );
        sleep(LOOK_INTERVAL).await;
    }
    let (seconds, after) = (started.elapsed().as_secs_f64(), server.usage()?);
    stop.cancel();
    print(
        arguments.output,
        &NamespaceDeletionReport {
            objects: arguments.objects,
            seconds,
            cpu_seconds: after.cpu.saturating_sub(before.cpu).as_secs_f64(),
            quiet,
            meanwhile: probe.await??,
        },
    )
}

async fn fill(endpoint: &ServerEndpoint, count: usize) -> Result<()> {
    let mut connection = endpoint.connect().await?;
    let namespace = json!({"metadata": {"name": "full"}}).to_string();
    connection
        .execute(Method::POST, "/api/v1/namespaces", namespace.into())
        .await?;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = endpoint.connect().await?;
        writers.spawn(async move {
            for index in (writer..count).step_by(WRITERS) {
                let resource = RESOURCES[index % RESOURCES.len()];
                let path = format!("{NAMESPACE}/{resource}");
                connection
                    .execute(Method::POST, &path, object(resource, index))
                    .await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = writers.join_next().await {
        done??;
    }
    Ok(())
}

fn object(resource: &str, index: usize) -> Bytes {
    let metadata = json!({"name": format!("object-{index:05}"), "labels": {"app": "full"}});
    let mut object = json!({"metadata": metadata});
    match resource {
        // Headless: the service IP range is too small for all of them.
        "services" => object["spec"] = json!({"clusterIP": "None", "selector": {"app": "full"}}),
        "configmaps" => object["data"] = json!({"key": "value"}),
        _ => {}
    }
    object.to_string().into()
}

async fn is_there(connection: &mut ApiConnection) -> Result<bool> {
    let path = "/api/v1/namespaces?fieldSelector=metadata.name%3Dfull";
    let list = connection.execute(Method::GET, path, Bytes::new()).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let items = list["items"].as_array().context("a list")?;
    Ok(!items.is_empty())
}

/// Alternates reads and writes in another namespace until cancelled.
async fn probe(mut connection: ApiConnection, stop: CancellationToken) -> Result<ProbeLatency> {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut ticks = interval(PROBE_INTERVAL);
    let path = format!("{PROBED_COLLECTION}/probe");
    for number in 0.. {
        ticks.tick().await;
        if stop.is_cancelled() {
            break;
        }
        let started = Instant::now();
        if number % 2 == 0 {
            connection.execute(Method::GET, &path, Bytes::new()).await?;
            reads.push(started.elapsed());
        } else {
            let patch = json!({"data": {"number": number.to_string()}}).to_string();
            connection.patch(&path, patch.into()).await?;
            writes.push(started.elapsed());
        }
    }
    Ok(ProbeLatency {
        read: Percentiles::of(reads),
        write: Percentiles::of(writes),
    })
}

fn print(output: OutputFormat, report: &NamespaceDeletionReport) -> Result<()> {
    if output == OutputFormat::Json {
        println!("{}", serde_json::to_string_pretty(report)?);
        return Ok(());
    }
    println!(
        "a namespace of {} objects was deleted after {:.1} s, {:.1} s of CPU time\n",
        report.objects, report.seconds, report.cpu_seconds
    );
    let mut table = MarkdownTable::new(&["others meanwhile", "p50", "p99", "max"]);
    for (name, times) in [
        ("read, before the deletion", report.quiet.read),
        ("read, during the deletion", report.meanwhile.read),
        ("write, before the deletion", report.quiet.write),
        ("write, during the deletion", report.meanwhile.write),
    ] {
        let cell = |ms: f64| format!("{ms:.2} ms");
        table.row([
            name.to_owned(),
            cell(times.p50_ms),
            cell(times.p99_ms),
            cell(times.max_ms),
        ]);
    }
    print!("{}", table.render());
    Ok(())
}
