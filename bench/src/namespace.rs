//! How long the end of a full namespace takes, and what others notice of it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::client::{Connection, Endpoint};
use crate::servers::{self, Server};
use crate::stats::Percentiles;
use crate::table::{Output, Table};

const NAMESPACE: &str = "/api/v1/namespaces/full";
const OTHER: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 32;
/// How often another client reads and writes.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(600);
/// What the namespace holds, in turns.
const RESOURCES: [&str; 4] = ["configmaps", "secrets", "services", "serviceaccounts"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many objects the namespace has.
    #[arg(long, default_value_t = 50_000)]
    objects: usize,
    /// How long others are measured while nothing ends.
    #[arg(long, default_value_t = 10)]
    quiet_seconds: u64,
    /// A table for people, or JSON.
    #[arg(short, long, default_value = "table")]
    output: Output,
    #[command(flatten)]
    servers: servers::Choice,
}

/// What another client waits for its answers.
#[derive(Serialize)]
struct Latency {
    read: Percentiles,
    write: Percentiles,
}

#[derive(Serialize)]
struct Report {
    objects: usize,
    seconds: f64,
    cpu_seconds: f64,
    quiet: Latency,
    meanwhile: Latency,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let program = arguments.servers.rhumb_with_controllers()?;
    let server = Server::start(&program).await?;
    let endpoint = &server.endpoint;
    eprintln!("{program}, {} objects", arguments.objects);
    fill(endpoint, arguments.objects).await?;
    let mut connection = endpoint.connect().await?;
    let map = json!({"metadata": {"name": "probe"}}).to_string();
    connection.ask(Method::POST, OTHER, map.into()).await?;
    let stop = CancellationToken::new();
    let probe = tokio::spawn(probe(endpoint.connect().await?, stop.clone()));
    sleep(Duration::from_secs(arguments.quiet_seconds)).await;
    stop.cancel();
    let quiet = probe.await??;

    let stop = CancellationToken::new();
    let probe = tokio::spawn(self::probe(endpoint.connect().await?, stop.clone()));
    let (begun, before) = (Instant::now(), server.usage()?);
    connection
        .ask(Method::DELETE, NAMESPACE, Bytes::new())
        .await?;
    while is_there(&mut connection).await? {
        ensure!(begun.elapsed() < PATIENCE, "the namespace does not end");
        sleep(LOOK_INTERVAL).await;
    }
    let (seconds, after) = (begun.elapsed().as_secs_f64(), server.usage()?);
    stop.cancel();
    print(
        arguments.output,
        &Report {
            objects: arguments.objects,
            seconds,
            cpu_seconds: after.cpu.saturating_sub(before.cpu).as_secs_f64(),
            quiet,
            meanwhile: probe.await??,
        },
    )
}

async fn fill(endpoint: &Endpoint, count: usize) -> Result<()> {
    let mut connection = endpoint.connect().await?;
    let namespace = json!({"metadata": {"name": "full"}}).to_string();
    connection
        .ask(Method::POST, "/api/v1/namespaces", namespace.into())
        .await?;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = endpoint.connect().await?;
        writers.spawn(async move {
            for index in (writer..count).step_by(WRITERS) {
                let resource = RESOURCES[index % RESOURCES.len()];
                let path = format!("{NAMESPACE}/{resource}");
                connection
                    .ask(Method::POST, &path, object(resource, index))
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
        // Without an address of its own: there are not as many.
        "services" => object["spec"] = json!({"clusterIP": "None", "selector": {"app": "full"}}),
        "configmaps" => object["data"] = json!({"key": "value"}),
        _ => {}
    }
    object.to_string().into()
}

async fn is_there(connection: &mut Connection) -> Result<bool> {
    let path = "/api/v1/namespaces?fieldSelector=metadata.name%3Dfull";
    let list = connection.ask(Method::GET, path, Bytes::new()).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let items = list["items"].as_array().context("a list")?;
    Ok(!items.is_empty())
}

/// Reads and writes in another namespace, in turns, until it is told to stop.
async fn probe(mut connection: Connection, stop: CancellationToken) -> Result<Latency> {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut ticks = interval(PROBE_INTERVAL);
    let path = format!("{OTHER}/probe");
    for number in 0.. {
        ticks.tick().await;
        if stop.is_cancelled() {
            break;
        }
        let begun = Instant::now();
        if number % 2 == 0 {
            connection.ask(Method::GET, &path, Bytes::new()).await?;
            reads.push(begun.elapsed());
        } else {
            let patch = json!({"data": {"number": number.to_string()}}).to_string();
            connection.patch(&path, patch.into()).await?;
            writes.push(begun.elapsed());
        }
    }
    Ok(Latency {
        read: Percentiles::of(reads),
        write: Percentiles::of(writes),
    })
}

fn print(output: Output, report: &Report) -> Result<()> {
    if output == Output::Json {
        println!("{}", serde_json::to_string_pretty(report)?);
        return Ok(());
    }
    println!(
        "a namespace of {} objects was gone after {:.1} s, {:.1} s of CPU time\n",
        report.objects, report.seconds, report.cpu_seconds
    );
    let mut table = Table::new(&["others meanwhile", "p50", "p99", "max"]);
    for (name, times) in [
        ("read, nothing ends", report.quiet.read),
        ("read, the namespace ends", report.meanwhile.read),
        ("write, nothing ends", report.quiet.write),
        ("write, the namespace ends", report.meanwhile.write),
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
