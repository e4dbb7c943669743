//! How many changes a second the cache takes in and tells its watchers.
//!
//! The changes come from memory and the projector does little, so that what is measured is the cache: the tree,
//! the history, finding the watchers and handing them their events.

mod source;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rhumb_cache::{Cache, Hub, Message, Options, Resource, Scope, Start, WatchRequest, Watcher};
use rhumb_meta::{StoragePrefix, fields, labels};
use tokio::task::JoinSet;

use crate::machine;
use source::{Label, Source};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    #[arg(long, default_value_t = 300_000)]
    changes: usize,
    #[arg(long, default_value_t = 1300)]
    value_bytes: usize,
}

/// What the watchers ask for.
#[derive(Clone, Copy)]
enum Asked {
    /// Each for a label value of its own, which one object in ten thousand has.
    OwnLabel,
    Everything,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    ensure!(arguments.objects > 0, "--objects must be at least 1");
    println!("{}", machine::describe());
    println!("| watchers | each asks for | changes a second | events a second |");
    println!("|---:|---|---:|---:|");
    for (watchers, asked) in [
        (0, Asked::Everything),
        (100, Asked::OwnLabel),
        (10_000, Asked::OwnLabel),
        (10, Asked::Everything),
        (100, Asked::Everything),
    ] {
        measure(&arguments, watchers, asked).await?;
    }
    Ok(())
}

async fn measure(arguments: &Arguments, watchers: usize, asked: Asked) -> Result<()> {
    let source = Arc::new(Source::new(
        arguments.objects,
        arguments.changes,
        arguments.value_bytes,
    ));
    let resource = Resource {
        prefix: StoragePrefix::new("pods")?,
        projector: Arc::new(Label::default()),
        indexes: Vec::new(),
    };
    let prefix = resource.prefix.clone();
    let store = Arc::clone(&source) as _;
    let hub = Hub::start(store, "/registry", vec![resource], Options::default()).await?;
    let cache = hub.cache(&prefix).context("it was just added")?;
    let last = source.last();
    let mut tasks = JoinSet::new();
    for index in 0..watchers {
        let expected = match asked {
            Asked::OwnLabel => source.changes_of(index),
            Asked::Everything => arguments.changes,
        };
        tasks.spawn(follow(watch(&cache, index, asked)?, expected));
    }
    let begun = Instant::now();
    source.go();
    hub.wait_for(last, tokio::time::Instant::now() + Duration::from_secs(600))
        .await?;
    let applied = begun.elapsed();
    let mut events = 0;
    while let Some(told) = tasks.join_next().await {
        events += told??;
    }
    let told = begun.elapsed();
    let asked = match asked {
        Asked::OwnLabel => "a label of its own",
        Asked::Everything => "everything",
    };
    println!(
        "| {watchers} | {asked} | {:.0} | {:.0} |",
        arguments.changes as f64 / applied.as_secs_f64(),
        events as f64 / told.as_secs_f64(),
    );
    Ok(())
}

fn watch(cache: &Cache, index: usize, asked: Asked) -> Result<Watcher> {
    let labels = match asked {
        Asked::OwnLabel => format!("app=app-{index}").parse()?,
        Asked::Everything => labels::Selector::everything(),
    };
    let request = WatchRequest {
        start: Start::Latest,
        scope: Scope::All,
        labels,
        fields: fields::Selector::everything(),
    };
    Ok(cache.watch(request)?)
}

/// Takes the bytes of as many events as there must be.
async fn follow(mut watcher: Watcher, expected: usize) -> Result<usize> {
    let mut events = 0;
    while events < expected {
        if let Message::Event(event) = watcher.next().await? {
            std::hint::black_box(event.frame());
            events += 1;
        }
    }
    Ok(events)
}
