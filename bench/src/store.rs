//! Write throughput and latency of the embedded store and of an etcd server, with one and with many writers.

mod backends;
mod etcd_server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;

use crate::host_info;
use backends::StoreBackend;

pub(crate) use etcd_server::{free_port, start_etcd};

#[derive(clap::Args)]
pub(crate) struct StoreBenchArguments {
    /// Duration of each load in seconds.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Number of concurrent writers, in addition to one.
    #[arg(long, default_value_t = 64)]
    writers: usize,
    #[arg(long, default_value_t = 1024)]
    value_bytes: usize,
    /// Number of repetitions; the median is reported.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// etcd binary to compare with.
    #[arg(long, default_value = "etcd")]
    etcd: String,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Throughput and latency of one load.
struct StoreLoadResult {
    name: &'static str,
    writers: usize,
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

pub(crate) async fn run(arguments: StoreBenchArguments) -> Result<()> {
    ensure!(arguments.rounds > 0, "--rounds must be at least 1");
    let mut rounds = Vec::with_capacity(arguments.rounds);
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        rounds.push(compare(&arguments).await?);
    }
    let figures = medians(rounds);
    if arguments.json {
        print_json(&arguments, &figures);
    } else {
        print_table(&arguments, &figures);
    }
    Ok(())
}

/// Runs all loads sequentially on the same disk.
async fn compare(arguments: &StoreBenchArguments) -> Result<Vec<StoreLoadResult>> {
    let directory =
        tempfile::tempdir().context("failed to create a directory for the benchmark's data")?;
    let mut figures = Vec::new();
    let embedded = backends::embedded(&directory.path().join("embedded")).await?;
    for writers in [1, arguments.writers] {
        figures.push(load(arguments, "embedded", &embedded, writers).await?);
    }
    drop(embedded);
    let server = start_etcd(&arguments.etcd, &directory.path().join("etcd")).await?;
    let plain = backends::plain_etcd(&server.endpoint()).await?;
    let transactions = backends::etcd_transactions(&server.endpoint()).await?;
    let backend = backends::etcd_backend(&server.endpoint()).await?;
    for writers in [1, arguments.writers] {
        figures.push(load(arguments, "etcd, plain puts", &plain, writers).await?);
        figures.push(
            load(
                arguments,
                "etcd, plain transactions",
                &transactions,
                writers,
            )
            .await?,
        );
        figures.push(load(arguments, "etcd, as rhumb's backend", &backend, writers).await?);
    }
    Ok(figures)
}

async fn load(
    arguments: &StoreBenchArguments,
    name: &'static str,
    target: &Arc<dyn StoreBackend>,
    writers: usize,
) -> Result<StoreLoadResult> {
    eprint!("  {name}, {writers} writer(s) ... ");
    let value = Bytes::from(vec![b'v'; arguments.value_bytes]);
    let stop = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (target, value, stop) = (Arc::clone(target), value.clone(), Arc::clone(&stop));
            let prefix = format!("/registry/pods/{}-{writers}/pod-{writer}", key_part(name));
            tokio::spawn(async move { write_until(&*target, &prefix, value, &stop).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(arguments.seconds)).await;
    stop.store(true, Ordering::Relaxed);
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let elapsed = started.elapsed();
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    let figure = StoreLoadResult {
        name,
        writers,
        per_second: latencies.len() as f64 / elapsed.as_secs_f64(),
        p50: at(0.50),
        p99: at(0.99),
    };
    eprintln!("{:.0} writes/s", figure.per_second);
    Ok(figure)
}

/// Load name reduced to key characters, so that loads on one server use separate keys.
fn key_part(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Creates keys until stopped and returns the latency of each.
async fn write_until(
    target: &dyn StoreBackend,
    prefix: &str,
    value: Bytes,
    stop: &AtomicBool,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let count = latencies.len();
        let key = format!("{prefix}-{count}");
        let begun = Instant::now();
        target.create(&key, value.clone()).await?;
        latencies.push(begun.elapsed());
    }
    ensure!(
        !latencies.is_empty(),
        "a writer wrote nothing; raise --seconds"
    );
    Ok(latencies)
}

/// Median round of each load by rate.
fn medians(rounds: Vec<Vec<StoreLoadResult>>) -> Vec<StoreLoadResult> {
    let mut by_load: Vec<Vec<StoreLoadResult>> = Vec::new();
    for round in rounds {
        for (index, figure) in round.into_iter().enumerate() {
            if by_load.len() == index {
                by_load.push(Vec::new());
            }
            by_load[index].push(figure);
        }
    }
    let median = |mut figures: Vec<StoreLoadResult>| {
        figures.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        figures.swap_remove(figures.len() / 2)
    };
    by_load.into_iter().map(median).collect()
}

/// Ratios that the performance targets refer to.
fn ratios(
    arguments: &StoreBenchArguments,
    figures: &[StoreLoadResult],
) -> [(&'static str, f64); 2] {
    let rate = |name: &str, writers: usize| {
        let found = figures
            .iter()
            .find(|f| f.name == name && f.writers == writers);
        found.map_or(f64::NAN, |figure| figure.per_second)
    };
    let many = rate("embedded", arguments.writers);
    [
        (
            "many writers over one, embedded",
            many / rate("embedded", 1),
        ),
        (
            "embedded over etcd, many writers",
            many / rate("etcd, plain puts", arguments.writers),
        ),
    ]
}

fn print_table(arguments: &StoreBenchArguments, figures: &[StoreLoadResult]) {
    println!("{}", host_info::describe());
    println!(
        "{} B values, {} s a load, median of {} rounds, fsync on\n",
        arguments.value_bytes, arguments.seconds, arguments.rounds
    );
    println!("| store | writers | writes/s | p50 | p99 |");
    println!("|---|---:|---:|---:|---:|");
    for figure in figures {
        println!(
            "| {} | {} | {:.0} | {:.2} ms | {:.2} ms |",
            figure.name,
            figure.writers,
            figure.per_second,
            figure.p50.as_secs_f64() * 1e3,
            figure.p99.as_secs_f64() * 1e3,
        );
    }
    println!();
    for (name, ratio) in ratios(arguments, figures) {
        println!("{name}: {ratio:.1}x");
    }
}

fn print_json(arguments: &StoreBenchArguments, figures: &[StoreLoadResult]) {
    let loads: Vec<_> = figures
        .iter()
        .map(|figure| {
            format!(
                r#"{{"store":"{}","writers":{},"writesPerSecond":{:.1},"p50Ms":{:.3},"p99Ms":{:.3}}}"#,
                figure.name,
                figure.writers,
                figure.per_second,
                figure.p50.as_secs_f64() * 1e3,
                figure.p99.as_secs_f64() * 1e3,
            )
        })
        .collect();
    let ratios = ratios(arguments, figures).map(|(name, ratio)| format!(r#""{name}":{ratio:.2}"#));
    println!(
        r#"{{"machine":"{}","loads":[{}],"ratios":{{{}}}}}"#,
        host_info::describe(),
        loads.join(","),
        ratios.join(",")
    );
}
