//! Behaviour of caches and watches when the store fails.

mod support;

use std::sync::Arc;
use std::time::Duration;

use rhumb_cache::{
    CacheHealth, CacheManager, CacheOptions, Error, HistoryError, RestartingWatchMessage, WatchEnd,
    WatchRequest, WatchStart,
};
use rhumb_meta::Revision;
use rhumb_store::{Error as StoreError, Store};
use support::gated_store::GatedStore;
use support::memory_store::MemoryStore;
use support::{
    contents, delete, drain, eventually, next, next_summary, pods, put, start, wait, watch,
};
use tokio::time::{Instant, timeout};

fn unavailable() -> StoreError {
    StoreError::Unavailable {
        reason: "the network is down".to_owned(),
    }
}

async fn start_with_two_pods() -> (Arc<MemoryStore>, Arc<dyn Store>, CacheManager) {
    let memory = MemoryStore::new();
    let store: Arc<dyn Store> = memory.clone();
    put(&*store, "pods/ns/a", ";;1").await;
    put(&*store, "pods/ns/b", ";;1").await;
    let options = CacheOptions {
        backoff_max: Duration::from_millis(20),
        ..CacheOptions::default()
    };
    let manager = start(&store, options).await;
    (memory, store, manager)
}

#[tokio::test]
async fn a_watch_survives_a_broken_stream() {
    let (memory, store, manager) = start_with_two_pods().await;
    assert_eq!(manager.health(), CacheHealth::Synced);
    let mut watcher = watch(&pods(&manager), WatchStart::Latest);
    memory.fail_with(unavailable());
    eventually("the failure is detected", || !manager.health().is_ready()).await;
    let CacheHealth::Recovering { reason } = manager.health() else {
        panic!("{:?}", manager.health());
    };
    assert!(reason.contains("the network is down"), "{reason}");
    let first = put(&*store, "pods/ns/a", ";;2").await;
    let second = delete(&*store, "pods/ns/b").await;
    // Stale contents are served in the meantime, but consistent reads fail.
    assert_eq!(pods(&manager).snapshot().len(), 2);
    let soon = Instant::now() + Duration::from_millis(30);
    let refused = manager.wait_until_consistent(soon).await;
    assert!(
        matches!(refused, Err(Error::Store(StoreError::Unavailable { .. }))),
        "{refused:?}"
    );
    memory.clear_failure();
    assert_eq!(next_summary(&mut watcher).await, format!("~ns/a@{first}"));
    assert_eq!(next_summary(&mut watcher).await, format!("-ns/b@{second}"));
    wait(&manager, second).await;
    eventually("the caches have recovered", || manager.health().is_ready()).await;
}

#[tokio::test]
async fn a_watch_with_a_gap_expires_and_the_caches_are_reloaded() {
    let (memory, store, manager) = start_with_two_pods().await;
    let before = manager.applied_revision();
    let mut watcher = watch(&pods(&manager), WatchStart::Latest);
    let mut elsewhere = watch(
        &manager
            .cache(&support::prefix("services/specs"))
            .expect("cached"),
        WatchStart::Latest,
    );
    let delivered = put(&*store, "pods/ns/a", ";;told").await;
    wait(&manager, delivered).await;
    memory.fail_with(unavailable());
    eventually("the failure is detected", || !manager.health().is_ready()).await;
    delete(&*store, "pods/ns/b").await;
    put(&*store, "pods/ns/a", ";;2").await;
    let last = put(&*store, "pods/ns/c", ";;1").await;
    store.compact(last).await.expect("compacted");
    memory.clear_failure();
    wait(&manager, last).await;
    // Events from before the gap are still delivered; then the client must list again.
    assert_eq!(watcher.progress(), None);
    assert_eq!(
        next_summary(&mut watcher).await,
        format!("~ns/a@{delivered}")
    );
    assert_eq!(watcher.progress(), None, "no bookmark across the gap");
    assert_eq!(next(&mut watcher).await.err(), Some(WatchEnd::Expired));
    assert_eq!(next(&mut elsewhere).await.err(), Some(WatchEnd::Expired));
    let snapshot = pods(&manager).snapshot();
    let names: Vec<_> = contents(&snapshot).into_keys().collect();
    assert_eq!(names, ["ns/a", "ns/c"]);
    assert_eq!(snapshot.revision(), last);
    for old in [before, delivered] {
        let refused = pods(&manager).watch(WatchRequest::everything(WatchStart::After(old)));
        assert!(
            matches!(refused, Err(HistoryError::Expired { .. })),
            "{refused:?}"
        );
        assert!(pods(&manager).snapshot_at(old).is_err());
    }
    let mut fresh = watch(&pods(&manager), WatchStart::After(last));
    let more = put(&*store, "pods/ns/a", ";;3").await;
    assert_eq!(next_summary(&mut fresh).await, format!("~ns/a@{more}"));
    assert_eq!(pods(&manager).stats().expired_watchers, 1);
}

#[tokio::test]
async fn a_restarting_watcher_lists_again_after_a_gap() {
    let (memory, store, manager) = start_with_two_pods().await;
    let request = WatchRequest::everything(WatchStart::InitialList);
    let mut watcher = pods(&manager).watch_with_restarts(request);
    let mut next = async || match watcher.next().await {
        Some(RestartingWatchMessage::Event(event)) => event.entry().key().name().to_owned(),
        Some(RestartingWatchMessage::InitialEventsEnd(_)) => "listed".to_owned(),
        Some(RestartingWatchMessage::Restarted) => "restarted".to_owned(),
        None => "ended".to_owned(),
    };
    let listed = [next().await, next().await, next().await];
    assert_eq!(listed, ["a", "b", "listed"]);
    memory.fail_with(unavailable());
    eventually("the failure is detected", || !manager.health().is_ready()).await;
    delete(&*store, "pods/ns/b").await;
    let last = put(&*store, "pods/ns/c", ";;1").await;
    store.compact(last).await.expect("compacted");
    memory.clear_failure();
    let relisted = [next().await, next().await, next().await, next().await];
    assert_eq!(relisted, ["restarted", "a", "c", "listed"]);
    put(&*store, "pods/ns/d", ";;1").await;
    assert_eq!(next().await, "d");
    manager.close().await;
    assert_eq!([next().await, next().await], ["ended", "ended"]);
}

/// Breaks the stream while a resource is being added, changes its objects, and lets the load go on.
async fn add_during_failure(failure: StoreError) {
    let (memory, inner, _) = start_with_two_pods().await;
    put(&*inner, "widgets/ns/old", ";;1").await;
    let gated = GatedStore::new(inner, "/registry/widgets/");
    let store: Arc<dyn Store> = gated.clone();
    let manager = start(&store, CacheOptions::default()).await;
    let adding = tokio::spawn({
        let manager = manager.clone();
        async move { manager.add(support::resource("widgets")).await }
    });
    eventually("widgets are read", || gated.pages_read() > 0).await;
    let kept = put(&*store, "widgets/ns/kept", ";;1").await;
    wait(&manager, kept).await;
    memory.fail_with(failure);
    eventually("the failure is detected", || !manager.health().is_ready()).await;
    delete(&*store, "widgets/ns/old").await;
    let last = put(&*store, "widgets/ns/new", ";;1").await;
    memory.clear_failure();
    wait(&manager, last).await;
    gated.open();
    let cache = adding.await.expect("a task").expect("added");
    let names: Vec<_> = contents(&cache.snapshot()).into_keys().collect();
    assert_eq!(names, ["ns/kept", "ns/new"]);
    let mut watcher = watch(&cache, WatchStart::Latest);
    let more = put(&*store, "widgets/ns/new", ";;2").await;
    assert_eq!(next_summary(&mut watcher).await, format!("~ns/new@{more}"));
}

#[tokio::test]
async fn a_resource_is_added_while_the_stream_is_resumed() {
    add_during_failure(unavailable()).await;
}

#[tokio::test]
async fn a_resource_is_added_while_the_caches_are_reloaded() {
    add_during_failure(StoreError::Compacted {
        requested: Revision::new(1),
        oldest: Revision::new(2),
    })
    .await;
}

#[tokio::test]
async fn a_resource_is_added_while_the_store_is_restored_from_a_backup() {
    let (memory, inner, _) = start_with_two_pods().await;
    let backup = put(&*inner, "widgets/ns/kept", ";;1").await;
    let gated = GatedStore::new(inner, "/registry/widgets/");
    let store: Arc<dyn Store> = gated.clone();
    let manager = start(&store, CacheOptions::default()).await;
    put(&*store, "widgets/ns/lost", ";;1").await;
    let lost = put(&*store, "widgets/ns/lost", ";;2").await;
    wait(&manager, lost).await;
    let adding = tokio::spawn({
        let manager = manager.clone();
        async move { manager.add(support::resource("widgets")).await }
    });
    eventually("widgets are read", || gated.pages_read() > 0).await;
    memory.fail_with(StoreError::Compacted {
        requested: lost,
        oldest: lost,
    });
    eventually("the failure is detected", || !manager.health().is_ready()).await;
    memory.restore(backup);
    memory.clear_failure();
    eventually("the caches have recovered", || manager.health().is_ready()).await;
    let new = put(&*store, "widgets/ns/new", ";;1").await;
    wait(&manager, new).await;
    gated.open();
    let added = timeout(support::TEST_TIMEOUT, adding).await;
    let cache = added.expect("in time").expect("a task").expect("added");
    let names: Vec<_> = contents(&cache.snapshot()).into_keys().collect();
    assert_eq!(names, ["ns/kept", "ns/new"]);
    // The new history has not reached the revision of the lost change, and its changes are applied.
    let mut watcher = watch(&cache, WatchStart::Latest);
    let more = put(&*store, "widgets/ns/new", ";;2").await;
    assert!(more <= lost);
    assert_eq!(next_summary(&mut watcher).await, format!("~ns/new@{more}"));
}

#[tokio::test]
async fn a_damaged_record_in_the_stream_is_skipped() {
    let (memory, store, manager) = start_with_two_pods().await;
    let mut watcher = watch(&pods(&manager), WatchStart::Latest);
    memory.fail_with(StoreError::Damaged {
        key: "/registry/pods/ns/a".to_owned(),
        reason: "a bit was flipped".to_owned(),
    });
    memory.damage_key("/registry/pods/ns/a");
    eventually("the failure is detected", || !manager.health().is_ready()).await;
    memory.clear_failure();
    assert_eq!(next(&mut watcher).await.err(), Some(WatchEnd::Expired));
    eventually("the caches have recovered", || manager.health().is_ready()).await;
    let last = put(&*store, "pods/ns/b", ";;2").await;
    wait(&manager, last).await;
    assert!(
        pods(&manager)
            .snapshot()
            .get(&support::key("ns/a"))
            .is_err()
    );
    assert_eq!(pods(&manager).stats().objects, 1);
}

#[tokio::test]
async fn startup_loads_the_history_that_the_store_still_has() {
    let memory = MemoryStore::new();
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
        let options = CacheOptions {
            startup_history_revisions: warm,
            ..CacheOptions::default()
        };
        let manager = start(&store, options).await;
        assert_eq!(manager.applied_revision(), Revision::new(30));
        assert_eq!(pods(&manager).oldest_revision(), Revision::new(oldest));
        let mut resumed = watch(&pods(&manager), WatchStart::After(Revision::new(oldest)));
        assert_eq!(drain(&mut resumed).len() as u64, 30 - oldest);
        manager.close().await;
        assert_eq!(manager.health(), CacheHealth::Closed);
    }
}

#[tokio::test]
async fn an_unreadable_store_fails_the_start() {
    let memory = MemoryStore::new();
    memory.fail_with(unavailable());
    let resources = vec![support::resource("pods")];
    let started =
        CacheManager::start(memory, support::ROOT, resources, CacheOptions::default()).await;
    assert!(matches!(
        started,
        Err(Error::Store(StoreError::Unavailable { .. }))
    ));
}

#[tokio::test]
async fn dropping_the_manager_ends_its_watches() {
    let (_, _, manager) = start_with_two_pods().await;
    let cache = pods(&manager);
    let mut watcher = watch(&cache, WatchStart::Latest);
    drop(manager);
    assert_eq!(next(&mut watcher).await.err(), Some(WatchEnd::Closing));
    let refused = cache.watch(WatchRequest::everything(WatchStart::Latest));
    assert_eq!(refused.err(), Some(HistoryError::Closed));
    assert_eq!(
        cache.snapshot().len(),
        2,
        "cached objects can still be read"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consistent_reads_share_revision_requests_and_are_not_stale() {
    let (memory, store, manager) = start_with_two_pods().await;
    let before = memory.revision_requests();
    let readers: Vec<_> = (0..50)
        .map(|reader| {
            let (store, manager) = (Arc::clone(&store), manager.clone());
            tokio::spawn(async move {
                for _ in 0..20 {
                    let written = put(&*store, &format!("pods/ns/{reader}"), ";;x").await;
                    let current = support::current(&manager).await;
                    assert!(current >= written, "{current} after {written}");
                    assert!(pods(&manager).snapshot().revision() >= written);
                }
            })
        })
        .collect();
    for reader in readers {
        reader.await.expect("a reader");
    }
    let requests = memory.revision_requests() - before;
    assert!(
        requests < 500,
        "{requests} revision requests for 1000 reads"
    );
}
