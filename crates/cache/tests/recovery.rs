//! What happens to caches and watchers when the store fails.

mod support;

use std::sync::Arc;
use std::time::Duration;

use rhumb_cache::{Error, Health, HistoryError, Hub, Options, Start, WatchEnd, WatchRequest};
use rhumb_meta::Revision;
use rhumb_store::{Error as StoreError, Store};
use support::memory::Memory;
use support::{
    contents, delete, drain, eventually, next, next_sketch, pods, put, start, wait, watch,
};
use tokio::time::Instant;

fn unavailable() -> StoreError {
    StoreError::Unavailable {
        reason: "the network is down".to_owned(),
    }
}

async fn begin() -> (Arc<Memory>, Arc<dyn Store>, Hub) {
    let memory = Memory::new();
    let store: Arc<dyn Store> = memory.clone();
    put(&*store, "pods/ns/a", ";;1").await;
    put(&*store, "pods/ns/b", ";;1").await;
    let options = Options {
        backoff_max: Duration::from_millis(20),
        ..Options::default()
    };
    let hub = start(&store, options).await;
    (memory, store, hub)
}

#[tokio::test]
async fn a_watch_survives_a_broken_stream() {
    let (memory, store, hub) = begin().await;
    assert_eq!(hub.health(), Health::Following);
    let mut watcher = watch(&pods(&hub), Start::Latest);
    memory.break_with(unavailable());
    eventually("it is noticed", || !hub.health().is_ready()).await;
    let Health::Recovering { reason } = hub.health() else {
        panic!("{:?}", hub.health());
    };
    assert!(reason.contains("the network is down"), "{reason}");
    let first = put(&*store, "pods/ns/a", ";;2").await;
    let second = delete(&*store, "pods/ns/b").await;
    // What is cached is served meanwhile, but not as consistent.
    assert_eq!(pods(&hub).snapshot().len(), 2);
    let soon = Instant::now() + Duration::from_millis(30);
    let refused = hub.current(soon).await;
    assert!(
        matches!(refused, Err(Error::Store(StoreError::Unavailable { .. }))),
        "{refused:?}"
    );
    memory.mend();
    assert_eq!(next_sketch(&mut watcher).await, format!("~ns/a@{first}"));
    assert_eq!(next_sketch(&mut watcher).await, format!("-ns/b@{second}"));
    wait(&hub, second).await;
    eventually("it is well again", || hub.health().is_ready()).await;
}

#[tokio::test]
async fn a_watch_with_a_gap_ends_as_expired_and_the_caches_are_right_again() {
    let (memory, store, hub) = begin().await;
    let before = hub.revision();
    let mut watcher = watch(&pods(&hub), Start::Latest);
    let mut elsewhere = watch(
        &hub.cache(&support::prefix("services/specs"))
            .expect("cached"),
        Start::Latest,
    );
    let told = put(&*store, "pods/ns/a", ";;told").await;
    wait(&hub, told).await;
    memory.break_with(unavailable());
    eventually("it is noticed", || !hub.health().is_ready()).await;
    delete(&*store, "pods/ns/b").await;
    put(&*store, "pods/ns/a", ";;2").await;
    let last = put(&*store, "pods/ns/c", ";;1").await;
    store.compact(last).await.expect("compacted");
    memory.mend();
    wait(&hub, last).await;
    // What it was told before the gap is its own; then it must list again.
    assert_eq!(watcher.progress(), None);
    assert_eq!(next_sketch(&mut watcher).await, format!("~ns/a@{told}"));
    assert_eq!(watcher.progress(), None, "there is a gap behind");
    assert_eq!(next(&mut watcher).await.err(), Some(WatchEnd::Expired));
    assert_eq!(next(&mut elsewhere).await.err(), Some(WatchEnd::Expired));
    let snapshot = pods(&hub).snapshot();
    let names: Vec<_> = contents(&snapshot).into_keys().collect();
    assert_eq!(names, ["ns/a", "ns/c"]);
    assert_eq!(snapshot.revision(), last);
    for old in [before, told] {
        let refused = pods(&hub).watch(WatchRequest::everything(Start::After(old)));
        assert!(
            matches!(refused, Err(HistoryError::Expired { .. })),
            "{refused:?}"
        );
        assert!(pods(&hub).snapshot_at(old).is_err());
    }
    let mut fresh = watch(&pods(&hub), Start::After(last));
    let more = put(&*store, "pods/ns/a", ";;3").await;
    assert_eq!(next_sketch(&mut fresh).await, format!("~ns/a@{more}"));
    assert_eq!(pods(&hub).stats().terminated, 1);
}

#[tokio::test]
async fn a_damaged_record_in_the_stream_is_read_around() {
    let (memory, store, hub) = begin().await;
    let mut watcher = watch(&pods(&hub), Start::Latest);
    memory.break_with(StoreError::Damaged {
        key: "/registry/pods/ns/a".to_owned(),
        reason: "a bit was flipped".to_owned(),
    });
    memory.damage("/registry/pods/ns/a");
    eventually("it is noticed", || !hub.health().is_ready()).await;
    memory.mend();
    assert_eq!(next(&mut watcher).await.err(), Some(WatchEnd::Expired));
    eventually("it is well again", || hub.health().is_ready()).await;
    let last = put(&*store, "pods/ns/b", ";;2").await;
    wait(&hub, last).await;
    assert!(pods(&hub).snapshot().get(&support::key("ns/a")).is_err());
    assert_eq!(pods(&hub).stats().objects, 1);
}

#[tokio::test]
async fn a_start_tells_of_the_past_as_far_as_the_store_has_it() {
    let memory = Memory::new();
    let store: Arc<dyn Store> = memory.clone();
    for index in 0..30 {
        put(&*store, "pods/ns/a", &format!(";;{index}")).await;
    }
    for (warm, compacted, oldest) in [
        (10, 0, 20),
        (100, 0, 1),
        (100, 15, 15),
        (0, 15, 30),
        (10, 30, 30),
    ] {
        store
            .compact(Revision::new(compacted))
            .await
            .expect("compacted");
        let options = Options {
            warm_revisions: warm,
            ..Options::default()
        };
        let hub = start(&store, options).await;
        assert_eq!(hub.revision(), Revision::new(30));
        assert_eq!(pods(&hub).oldest(), Revision::new(oldest));
        let mut resumed = watch(&pods(&hub), Start::After(Revision::new(oldest)));
        assert_eq!(drain(&mut resumed).len() as u64, 30 - oldest);
        hub.close().await;
        assert_eq!(hub.health(), Health::Closed);
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_an_error_at_the_start() {
    let memory = Memory::new();
    memory.break_with(unavailable());
    let resources = vec![support::resource("pods")];
    let started = Hub::start(memory, support::ROOT, resources, Options::default()).await;
    assert!(matches!(
        started,
        Err(Error::Store(StoreError::Unavailable { .. }))
    ));
}

#[tokio::test]
async fn dropping_the_hub_ends_its_watchers() {
    let (_, _, hub) = begin().await;
    let cache = pods(&hub);
    let mut watcher = watch(&cache, Start::Latest);
    drop(hub);
    assert_eq!(next(&mut watcher).await.err(), Some(WatchEnd::Closing));
    let refused = cache.watch(WatchRequest::everything(Start::Latest));
    assert_eq!(refused.err(), Some(HistoryError::Closed));
    assert_eq!(
        cache.snapshot().len(),
        2,
        "what is cached can still be read"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_consistent_reads_share_a_question_and_none_is_stale() {
    let (memory, store, hub) = begin().await;
    let before = memory.questions();
    let readers: Vec<_> = (0..50)
        .map(|reader| {
            let (store, hub) = (Arc::clone(&store), hub.clone());
            tokio::spawn(async move {
                for _ in 0..20 {
                    let written = put(&*store, &format!("pods/ns/{reader}"), ";;x").await;
                    let current = support::current(&hub).await;
                    assert!(current >= written, "{current} after {written}");
                    assert!(pods(&hub).snapshot().revision() >= written);
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await.expect("a reader");
    }
    let asked = memory.questions() - before;
    assert!(asked < 500, "{asked} questions for 1000 reads");
}
