//! Memory per object and per watcher, measured as resident memory of a separate test process.

#![cfg(target_os = "linux")]

mod support;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use rhumb_cache::{CacheOptions, WatchRequest, WatchScope, WatchStart};
use rhumb_meta::fields;
use rhumb_store::{
    ChangeStream, ChangeStreamEvent, RangePage, RangeRequest, Result, Revision, Store, StoreEntry,
    Transaction,
};
use support::{pods, start};

const OBJECTS: usize = 100_000;
const JSON_BYTES: usize = 1300;
const WATCHERS: usize = 10_000;

/// A store that generates its objects when they are read and keeps none of them in memory.
#[derive(Debug)]
struct SyntheticStore;

fn name(index: usize) -> String {
    format!(
        "/registry/pods/namespace-{:03}/deployment-7d9c8b6f5-{index:06}",
        index / 1000
    )
}

/// Ten labels as pods of a Deployment have them: a few are unique, most are shared.
fn value(index: usize) -> Bytes {
    let owner = index / 50;
    let mut value = format!(
        "app.kubernetes.io/name=name-{owner},app.kubernetes.io/instance=instance-{owner},\
         app.kubernetes.io/version=1.2.3,app.kubernetes.io/component=web,\
         app.kubernetes.io/part-of=shop,app.kubernetes.io/managed-by=Helm,\
         pod-template-hash=hash{owner},tier=frontend,environment=production,\
         statefulset.kubernetes.io/pod-name=pod-{index};node-{:04},Running;",
        index % 5000
    );
    let frame = "{\"rv\":1,\"body\":\"\"}".len();
    value.extend(std::iter::repeat_n('x', JSON_BYTES - frame));
    value.into()
}

#[async_trait]
impl Store for SyntheticStore {
    async fn get(&self, _: &str) -> Result<Option<StoreEntry>> {
        Ok(None)
    }

    async fn range(&self, range: RangeRequest<'_>) -> Result<RangePage> {
        let after = range.after.and_then(|key| key.rsplit_once('-'));
        let first = after.map_or(0, |(_, index)| {
            index.parse::<usize>().expect("a number") + 1
        });
        let end = (first + range.limit.map_or(OBJECTS, usize::from)).min(OBJECTS);
        let entry = |index| StoreEntry {
            key: name(index).into(),
            value: value(index),
            created: Revision::new(1),
            modified: Revision::new(1),
        };
        Ok(RangePage {
            entries: (first..end).map(entry).collect(),
            revision: Revision::new(1),
            more: end < OBJECTS,
        })
    }

    async fn commit(&self, _: Transaction) -> Result<Revision> {
        Ok(Revision::new(1))
    }

    async fn changes(&self, _: &str, _: Revision) -> Result<Box<dyn ChangeStream>> {
        Ok(Box::new(IdleChangeStream))
    }

    async fn revision(&self) -> Result<Revision> {
        Ok(Revision::new(1))
    }

    async fn compact(&self, _: Revision) -> Result<()> {
        Ok(())
    }
}

/// A change stream without changes.
#[derive(Debug)]
struct IdleChangeStream;

#[async_trait]
impl ChangeStream for IdleChangeStream {
    async fn next(&mut self) -> Result<ChangeStreamEvent> {
        std::future::pending().await
    }

    async fn request_progress(&mut self) -> Result<()> {
        Ok(())
    }
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.expect("a size").parse::<usize>().expect("a number") * 1024
}

#[tokio::test]
async fn objects_and_watchers_are_small() {
    let store: Arc<dyn Store> = Arc::new(SyntheticStore);
    let before = resident_bytes();
    let manager = start(&store, CacheOptions::default()).await;
    let stats = pods(&manager).stats();
    assert_eq!(stats.objects, OBJECTS);
    let per_object = (resident_bytes() - before) / OBJECTS;
    println!("{per_object} bytes an object of {JSON_BYTES}");
    assert!(per_object < JSON_BYTES * 3 / 2 + 1024, "{per_object}");

    let before = resident_bytes();
    let watcher = |index| {
        let request = WatchRequest {
            start: WatchStart::Latest,
            scope: WatchScope::Namespace(format!("namespace-{}", index % 100).into()),
            labels: format!("pod-template-hash=hash{index}")
                .parse()
                .expect("a selector"),
            fields: fields::Selector::everything(),
        };
        pods(&manager).watch(request).expect("a watch")
    };
    let watchers: Vec<_> = (0..WATCHERS).map(watcher).collect();
    let per_watcher = (resident_bytes() - before) / WATCHERS;
    println!("{per_watcher} bytes a watcher");
    assert!(per_watcher < 1024, "{per_watcher}");
    assert_eq!(pods(&manager).stats().watchers, watchers.len());
}
