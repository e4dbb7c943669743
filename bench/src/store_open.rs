//! Time and memory to open an embedded store with many keys, after a clean shutdown and after a crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store::{ExpectedRevision, RangeRequest, Store, Transaction};

use crate::host_info;

#[derive(clap::Args)]
pub(crate) struct StoreOpenBenchArguments {
    #[arg(long, default_value_t = 500_000)]
    keys: usize,
    #[arg(long, default_value_t = 1024)]
    value_bytes: usize,
    /// Only measure this existing store.
    #[arg(long, hide = true)]
    measure: Option<PathBuf>,
    /// Only write to this existing store and abort.
    #[arg(long, hide = true)]
    crash: Option<PathBuf>,
}

const KEYS_A_TRANSACTION: usize = 100;

pub(crate) async fn run(arguments: StoreOpenBenchArguments) -> Result<()> {
    if let Some(directory) = &arguments.measure {
        return measure(directory).await;
    }
    if let Some(directory) = &arguments.crash {
        return crash(directory).await;
    }
    ensure!(arguments.keys > 0, "--keys must be at least 1");
    let directory =
        tempfile::tempdir().context("failed to create a directory for the benchmark's data")?;
    eprintln!("writing {} keys ...", arguments.keys);
    fill(directory.path(), &arguments).await?;
    println!("{}", host_info::describe());
    println!("after a clean shutdown:");
    ensure!(
        run_apart("--measure", directory.path())?,
        "the measuring process failed"
    );
    ensure!(
        !run_apart("--crash", directory.path())?,
        "the crashing process did not crash"
    );
    println!("after a crash:");
    ensure!(
        run_apart("--measure", directory.path())?,
        "the measuring process failed"
    );
    Ok(())
}

/// Runs a part in a child process, so that its memory excludes what writing needed.
fn run_apart(part: &str, directory: &Path) -> Result<bool> {
    let status = Command::new(std::env::current_exe()?)
        .args(["open", part])
        .arg(directory)
        .status()?;
    Ok(status.success())
}

/// Commits one transaction and aborts without closing the store.
async fn crash(directory: &Path) -> Result<()> {
    let store = EmbeddedStore::open(directory, small()).await?;
    let last = Transaction::new().put("/registry/last", "x", ExpectedRevision::Any);
    store.commit(last).await?;
    std::process::abort();
}

async fn measure(directory: &Path) -> Result<()> {
    let before = heap_kib()?;
    let started = Instant::now();
    let store = EmbeddedStore::open(directory, small()).await?;
    let opened = started.elapsed();
    let kib = heap_kib()?.saturating_sub(before);
    let started = Instant::now();
    let page = store.range(RangeRequest::prefix("/")).await?;
    let read = started.elapsed();
    let keys = page.entries.len() as u64;
    ensure!(keys > 0, "the store is empty");
    println!(
        "  {keys} keys, file of {} MiB: open {:.2} s, read all {:.2} s, {} B of memory per key",
        store.stats().file_bytes >> 20,
        opened.as_secs_f64(),
        read.as_secs_f64(),
        kib * 1024 / keys
    );
    store.close().await;
    Ok(())
}

/// Minimal caches, so that the memory per key is measured.
fn small() -> EmbeddedOptions {
    EmbeddedOptions {
        recent_changes_bytes: 1 << 10,
        ..EmbeddedOptions::default()
    }
}

async fn fill(directory: &Path, arguments: &StoreOpenBenchArguments) -> Result<()> {
    let store = EmbeddedStore::open(directory, small()).await?;
    let value = Bytes::from(vec![b'v'; arguments.value_bytes]);
    for first in (0..arguments.keys).step_by(KEYS_A_TRANSACTION) {
        let last = arguments.keys.min(first + KEYS_A_TRANSACTION);
        let transaction = (first..last).fold(Transaction::new(), |transaction, index| {
            let key = format!(
                "/registry/pods/namespace-{}/pod-0123456789-{index:07}",
                index % 50
            );
            transaction.put(key, value.clone(), ExpectedRevision::Absent)
        });
        store.commit(transaction).await?;
    }
    store.close().await;
    Ok(())
}

/// Anonymous resident memory of this process.
fn heap_kib() -> Result<u64> {
    let status =
        fs::read_to_string("/proc/self/status").context("failed to read /proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no RssAnon in /proc/self/status")?.parse()?)
}
