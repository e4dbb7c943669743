//! Stress tests: many watchers, and watches that start and end during constant changes.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rhumb_cache::{CacheOptions, EventKind, WatchMessage, WatchRequest, WatchScope, WatchStart};
use rhumb_meta::{Revision, fields, labels};
use rhumb_store::Store;
use rhumb_store_conformance::SeededRng;
use support::memory_store::MemoryStore;
use support::{contents, delete, next, pods, put, start, watch};

const WATCHERS: usize = 10_000;
const OBJECTS: usize = 500;
const CHANGES: usize = 5000;

/// Half of the watchers select an object by name, the others by a label that only this object has.
fn request(index: usize) -> WatchRequest {
    let object = index % OBJECTS;
    let everything = WatchRequest::everything(WatchStart::Latest);
    if index.is_multiple_of(2) {
        let name = format!("o{object}").into();
        let scope = WatchScope::Object {
            namespace: Some("ns".into()),
            name,
        };
        return WatchRequest {
            scope,
            ..everything
        };
    }
    WatchRequest {
        labels: labels::Selector::from_labels([("id", &*format!("o{object}"))]),
        fields: fields::Selector::everything(),
        ..everything
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_watchers_receive_every_event_once_and_in_order() {
    let store: Arc<dyn Store> = MemoryStore::new();
    let manager = start(&store, CacheOptions::default()).await;
    let mut tasks = Vec::new();
    for index in 0..WATCHERS {
        let mut watcher = pods(&manager).watch(request(index)).expect("a watch");
        let follow = async move {
            let mut received = Vec::new();
            loop {
                match next(&mut watcher).await.expect("a message") {
                    WatchMessage::Event(event) if event.kind() == EventKind::Deleted => {
                        return received;
                    }
                    WatchMessage::Event(event) => received.push(event.revision()),
                    WatchMessage::InitialEventsEnd(_) => panic!("the watch has no initial list"),
                }
            }
        };
        tasks.push(tokio::spawn(follow));
    }
    let random = &mut SeededRng::new(11);
    let mut expected: Vec<Vec<Revision>> = vec![Vec::new(); OBJECTS];
    for index in 0..CHANGES + OBJECTS {
        // The last round changes every object once.
        let object = match index.checked_sub(CHANGES) {
            Some(object) => object,
            None => random.below(OBJECTS),
        };
        let value = format!("id=o{object};;{index}");
        expected[object].push(put(&*store, &format!("pods/ns/o{object}"), &value).await);
    }
    for object in 0..OBJECTS {
        delete(&*store, &format!("pods/ns/o{object}")).await;
    }
    for (index, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.expect("a watcher"), expected[index % OBJECTS]);
    }
    assert_eq!(pods(&manager).stats().expired_watchers, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_started_at_any_moment_converges() {
    let store: Arc<dyn Store> = MemoryStore::new();
    let options = CacheOptions {
        watcher_queue_max: 3,
        ..CacheOptions::default()
    };
    let manager = start(&store, options).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        async move {
            let random = &mut SeededRng::new(5);
            while !is_over.load(Ordering::Relaxed) {
                let key = format!("pods/ns/{}", random.below(300));
                match random.below(3) {
                    0 => delete(&*store, &key).await,
                    _ => put(&*store, &key, ";;x").await,
                };
                if random.below(10) == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    let watchers: Vec<_> = (0..6)
        .map(|_| {
            let manager = manager.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    watch_and_compare(&manager).await;
                }
            })
        })
        .collect();
    for watcher in watchers {
        watcher.await.expect("a watcher");
    }
    is_over.store(true, Ordering::Relaxed);
    writer.await.expect("the writer");
    assert!(pods(&manager).stats().queue_overflows > 0);
    assert_eq!(pods(&manager).stats().watchers, 0);
}

/// Watches from an initial list and compares the resulting state with snapshots of the same revisions.
async fn watch_and_compare(manager: &rhumb_cache::CacheManager) {
    let mut watcher = watch(&pods(manager), WatchStart::InitialList);
    let mut state = BTreeMap::new();
    let (mut listed, mut compared) = (None, 0);
    while compared < 3 {
        match next(&mut watcher).await.expect("a message") {
            WatchMessage::InitialEventsEnd(revision) => {
                let snapshot = pods(manager).snapshot_at(revision).expect("recent");
                assert_eq!(state, contents(&snapshot), "the list as of {revision}");
                listed = Some(revision);
            }
            WatchMessage::Event(event) => {
                assert!(listed.is_none_or(|listed| event.revision() > listed));
                let key = event.entry().key().to_string();
                let json = String::from_utf8(event.entry().json().to_vec()).expect("text");
                match event.kind() {
                    EventKind::Deleted => state.remove(&key),
                    EventKind::Added | EventKind::Modified => state.insert(key, json),
                };
            }
        }
        if let Some(revision) = watcher.progress() {
            let snapshot = pods(manager).snapshot_at(revision).expect("recent");
            assert_eq!(state, contents(&snapshot), "as of {revision}");
            compared += 1;
        }
    }
}
