//! Many watchers, and watches that begin and end, while objects change all the time.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rhumb_cache::{EventKind, Message, Options, Scope, Start, WatchRequest};
use rhumb_meta::{Revision, fields, labels};
use rhumb_store::Store;
use rhumb_store_conformance::Random;
use support::memory::Memory;
use support::{contents, delete, next, pods, put, start, watch};

const WATCHERS: usize = 10_000;
const OBJECTS: usize = 500;
const CHANGES: usize = 5000;

/// Half of them ask for an object by name, the others by a label that only this object has.
fn request(index: usize) -> WatchRequest {
    let object = index % OBJECTS;
    let everything = WatchRequest::everything(Start::Latest);
    if index.is_multiple_of(2) {
        let name = format!("o{object}").into();
        let scope = Scope::Object {
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
async fn ten_thousand_watchers_are_each_told_everything_once_and_in_order() {
    let store: Arc<dyn Store> = Memory::new();
    let hub = start(&store, Options::default()).await;
    let mut tasks = Vec::new();
    for index in 0..WATCHERS {
        let mut watcher = pods(&hub).watch(request(index)).expect("a watch");
        let follow = async move {
            let mut told = Vec::new();
            loop {
                match next(&mut watcher).await.expect("a message") {
                    Message::Event(event) if event.kind() == EventKind::Deleted => return told,
                    Message::Event(event) => told.push(event.revision()),
                    Message::InitialEnd(_) => panic!("there was no list"),
                }
            }
        };
        tasks.push(tokio::spawn(follow));
    }
    let random = &mut Random::new(11);
    let mut expected: Vec<Vec<Revision>> = vec![Vec::new(); OBJECTS];
    for index in 0..CHANGES + OBJECTS {
        // Each of them at least once.
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
    assert_eq!(pods(&hub).stats().terminated, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_that_begins_at_any_moment_leads_to_what_is_there() {
    let store: Arc<dyn Store> = Memory::new();
    let options = Options {
        watcher_queue_max: 3,
        ..Options::default()
    };
    let hub = start(&store, options).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        async move {
            let random = &mut Random::new(5);
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
            let hub = hub.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    begin_and_compare(&hub).await;
                }
            })
        })
        .collect();
    for watcher in watchers {
        watcher.await.expect("a watcher");
    }
    is_over.store(true, Ordering::Relaxed);
    writer.await.expect("the writer");
    assert!(pods(&hub).stats().overflows > 0);
    assert_eq!(pods(&hub).stats().watchers, 0);
}

/// Watches for a while, and holds what it was told against the version of that revision.
async fn begin_and_compare(hub: &rhumb_cache::Hub) {
    let mut watcher = watch(&pods(hub), Start::List);
    let mut state = BTreeMap::new();
    let (mut listed, mut compared) = (None, 0);
    while compared < 3 {
        match next(&mut watcher).await.expect("a message") {
            Message::InitialEnd(revision) => {
                let snapshot = pods(hub).snapshot_at(revision).expect("recent");
                assert_eq!(state, contents(&snapshot), "the list as of {revision}");
                listed = Some(revision);
            }
            Message::Event(event) => {
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
            let snapshot = pods(hub).snapshot_at(revision).expect("recent");
            assert_eq!(state, contents(&snapshot), "as of {revision}");
            compared += 1;
        }
    }
}
