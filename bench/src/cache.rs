//! Throughput of the watch cache: changes applied and events delivered to watchers per second.
//!
//! Changes come from an in-memory store and the projector is trivial, so that the cache itself is measured: the
//! index, the event history, watcher lookup and delivery.

mod replay_store;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rhumb_cache::{
    CacheManager, CacheOptions, CacheWatcher, ResourceCache, ResourceCacheConfig, WatchMessage,
    WatchRequest, WatchScope, WatchStart,
};
use rhumb_meta::{StoragePrefix, fields, labels};
use tokio::task::JoinSet;

use crate::host_info;
use replay_store::{LabelOnlyProjector, ReplayStore};

#[derive(clap::Args)]
pub(crate) struct CacheBenchArguments {
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    #[arg(long, default_value_t = 300_000)]
    changes: usize,
    #[arg(long, default_value_t = 1300)]
    value_bytes: usize,
}

/// Selector of the watchers.
#[derive(Clone, Copy)]
enum WatcherSelector {
    /// Each watcher selects its own label value, which one object in ten thousand has.
    OwnLabel,
    Everything,
}

pub(crate) async fn run(arguments: CacheBenchArguments) -> Result<()> {
    ensure!(arguments.objects > 0, "--objects must be at least 1");
    println!("{}", host_info::describe());
    println!("| watchers | each selects | changes per second | events per second |");
    println!("|---:|---|---:|---:|");
    for (watchers, selector) in [
        (0, WatcherSelector::Everything),
        (100, WatcherSelector::OwnLabel),
        (10_000, WatcherSelector::OwnLabel),
        (10, WatcherSelector::Everything),
        (100, WatcherSelector::Everything),
    ] {
        measure(&arguments, watchers, selector).await?;
    }
    Ok(())
}

async fn measure(
    arguments: &CacheBenchArguments,
    watchers: usize,
    selector: WatcherSelector,
) -> Result<()> {
    let source = Arc::new(ReplayStore::new(
        arguments.objects,
        arguments.changes,
        arguments.value_bytes,
    ));
    let resource = ResourceCacheConfig {
        prefix: StoragePrefix::new("pods")?,
        projector: Arc::new(LabelOnlyProjector::default()),
        indexes: Vec::new(),
    };
    let prefix = resource.prefix.clone();
    let store = Arc::clone(&source) as _;
    let hub =
        CacheManager::start(store, "/registry", vec![resource], CacheOptions::default()).await?;
    let cache = hub
        .cache(&prefix)
        .context("the cache manager has no cache for the resource it was started with")?;
    let last = source.last();
    let mut tasks = JoinSet::new();
    for index in 0..watchers {
        let expected = match selector {
            WatcherSelector::OwnLabel => source.changes_of(index),
            WatcherSelector::Everything => arguments.changes,
        };
        tasks.spawn(follow(watch(&cache, index, selector)?, expected));
    }
    let started = Instant::now();
    source.release();
    hub.wait_for_revision(last, tokio::time::Instant::now() + Duration::from_secs(600))
        .await?;
    let applied = started.elapsed();
    let mut events = 0;
    while let Some(delivered) = tasks.join_next().await {
        events += delivered??;
    }
    let delivered = started.elapsed();
    let selector = match selector {
        WatcherSelector::OwnLabel => "its own label value",
        WatcherSelector::Everything => "everything",
    };
    println!(
        "| {watchers} | {selector} | {:.0} | {:.0} |",
        arguments.changes as f64 / applied.as_secs_f64(),
        events as f64 / delivered.as_secs_f64(),
    );
    Ok(())
}

fn watch(cache: &ResourceCache, index: usize, selector: WatcherSelector) -> Result<CacheWatcher> {
    let labels = match selector {
        WatcherSelector::OwnLabel => format!("app=app-{index}").parse()?,
        WatcherSelector::Everything => labels::Selector::everything(),
    };
    let request = WatchRequest {
        start: WatchStart::Latest,
        scope: WatchScope::All,
        labels,
        fields: fields::Selector::everything(),
    };
    Ok(cache.watch(request)?)
}

/// Reads and encodes `expected` events.
async fn follow(mut watcher: CacheWatcher, expected: usize) -> Result<usize> {
    let mut events = 0;
    while events < expected {
        if let WatchMessage::Event(event) = watcher.next().await? {
            std::hint::black_box(event.frame());
            events += 1;
        }
    }
    Ok(events)
}
