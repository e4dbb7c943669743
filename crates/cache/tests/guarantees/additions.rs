//! Guarantees of resources that are added and removed while the caches run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rhumb_cache::{
    CacheManager, CacheOptions, Error, HistoryError, ResourceCache, WatchEnd, WatchRequest,
    WatchStart,
};
use rhumb_meta::Revision;
use rhumb_store::{RangeRequest, Store};
use rhumb_store_conformance::ConformanceBackend;
use tokio::task::JoinHandle;

use super::apply_event;
use crate::support::gated_store::GatedStore;
use crate::support::{
    contents, delete, eventually, next, next_summary, pods, prefix, put, resource, start, wait,
    watch,
};

pub(crate) async fn a_resource_can_be_added_and_removed_at_run_time(
    harness: &mut impl ConformanceBackend,
) {
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    let widgets = resource("example.com/widgets");
    put(&*store, "example.com/widgets/ns/a", ";;1").await;
    let last = put(&*store, "example.com/widgets/ns/b", ";;2").await;
    assert!(manager.cache(&widgets.prefix).is_none());
    let cache = manager.add(widgets.clone()).await.expect("a new resource");
    assert!(manager.applied_revision() >= last);
    assert_eq!(contents(&cache.snapshot()).len(), 2);
    assert!(matches!(
        manager.add(widgets.clone()).await,
        Err(Error::AlreadyCached { .. })
    ));
    let mut watcher = watch(&cache, WatchStart::Latest);
    let third = put(&*store, "example.com/widgets/ns/a", ";;3").await;
    assert_eq!(next_summary(&mut watcher).await, format!("~ns/a@{third}"));
    manager.remove(&widgets.prefix).await.expect("removed");
    assert_eq!(
        next(&mut watcher).await.expect_err("over"),
        WatchEnd::Removed
    );
    assert!(manager.cache(&widgets.prefix).is_none());
    let again = manager.add(widgets).await.expect("added again");
    assert_eq!(contents(&again.snapshot()).len(), 2);
}

const WIDGETS: &str = "example.com/widgets";

/// A store that withholds the widgets, and the caches of the other resources.
async fn start_with_gated_widgets(
    harness: &impl ConformanceBackend,
) -> (Arc<GatedStore>, Arc<dyn Store>, CacheManager) {
    let gated = GatedStore::new(harness.store(), &format!("/registry/{WIDGETS}/"));
    let store: Arc<dyn Store> = gated.clone();
    let manager = start(&store, CacheOptions::default()).await;
    (gated, store, manager)
}

/// Adds the widgets in a task, and waits until their objects are being read.
async fn begin_adding_widgets(
    manager: &CacheManager,
    gated: &GatedStore,
) -> JoinHandle<Result<ResourceCache, Error>> {
    let pages_before = gated.pages_read();
    let adding = tokio::spawn({
        let manager = manager.clone();
        async move { manager.add(resource(WIDGETS)).await }
    });
    eventually("widgets are read", || gated.pages_read() > pages_before).await;
    adding
}

pub(crate) async fn other_caches_advance_while_a_resource_is_added(
    harness: &mut impl ConformanceBackend,
) {
    let (gated, store, manager) = start_with_gated_widgets(harness).await;
    for name in ["deleted", "kept", "modified"] {
        put(&*store, &format!("{WIDGETS}/ns/{name}"), ";;1").await;
    }
    let mut watcher = watch(&pods(&manager), WatchStart::Latest);
    let adding = begin_adding_widgets(&manager, &gated).await;
    let mut last = Revision::ZERO;
    for round in 0..20 {
        last = put(&*store, "pods/ns/a", &format!(";;{round}")).await;
        wait(&manager, last).await;
        let mark = if round == 0 { '+' } else { '~' };
        assert_eq!(
            next_summary(&mut watcher).await,
            format!("{mark}ns/a@{last}")
        );
        put(&*store, &format!("{WIDGETS}/ns/modified"), ";;2").await;
        put(&*store, &format!("{WIDGETS}/ns/created"), ";;2").await;
    }
    delete(&*store, &format!("{WIDGETS}/ns/deleted")).await;
    delete(&*store, &format!("{WIDGETS}/ns/created")).await;
    let created = put(&*store, &format!("{WIDGETS}/ns/created"), ";;3").await;
    wait(&manager, created).await;
    assert!(manager.cache(&prefix(WIDGETS)).is_none(), "not visible yet");
    assert!(matches!(
        manager.add(resource(WIDGETS)).await,
        Err(Error::AlreadyCached { .. })
    ));
    gated.open();
    let cache = adding.await.expect("a task").expect("added");
    let snapshot = cache.snapshot();
    assert!(snapshot.revision() >= created && created > last);
    let names: Vec<String> = contents(&snapshot).into_keys().collect();
    assert_eq!(names, ["ns/created", "ns/kept", "ns/modified"]);
    let mut listed = watch(&cache, WatchStart::InitialList);
    assert_eq!(
        next_summary(&mut listed).await,
        format!("+ns/created@{created}")
    );
    // A watch resumes from the revision of the first list, and not from earlier ones.
    let mut resumed = watch(&cache, WatchStart::After(snapshot.revision()));
    let later = delete(&*store, &format!("{WIDGETS}/ns/kept")).await;
    assert_eq!(
        next_summary(&mut resumed).await,
        format!("-ns/kept@{later}")
    );
    let too_old = cache.watch(WatchRequest::everything(WatchStart::After(last)));
    assert!(
        matches!(too_old, Err(HistoryError::Expired { .. })),
        "{too_old:?}"
    );
}

pub(crate) async fn a_resource_that_is_written_while_it_is_added_is_complete(
    harness: &mut impl ConformanceBackend,
) {
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        async move {
            let mut last = Revision::ZERO;
            for index in 0_usize.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let key = format!("{WIDGETS}/ns/{}", index * 7 % 30);
                last = match index % 3 {
                    2 => delete(&*store, &key).await,
                    _ => put(&*store, &key, &format!(";;{index}")).await,
                };
                put(&*store, "pods/ns/a", ";;x").await;
            }
            last
        }
    });
    let mut watchers = Vec::new();
    for _ in 0..10 {
        let cache = manager.add(resource(WIDGETS)).await;
        let cache = cache.expect("added");
        let mut watcher = watch(&cache, WatchStart::InitialList);
        let (mut state, mut events) = (BTreeMap::new(), 0);
        // Every event is checked to be a transition from the state before it: so none is lost or doubled.
        while events < 20 {
            let message = next(&mut watcher).await.expect("a message");
            events += usize::from(apply_event(&mut state, &message).is_some());
        }
        watchers.push(watcher);
        manager.remove(&prefix(WIDGETS)).await.expect("removed");
    }
    for mut watcher in watchers {
        let end = loop {
            if let Err(end) = next(&mut watcher).await {
                break end;
            }
        };
        assert_eq!(end, WatchEnd::Removed);
    }
    let cache = manager.add(resource(WIDGETS)).await;
    is_over.store(true, Ordering::Relaxed);
    let last = writer.await.expect("the writer");
    wait(&manager, last).await;
    let everything = RangeRequest::prefix("/registry/example.com/widgets/");
    let stored = store.range(everything).await.expect("a list").entries;
    let stored: Vec<String> = stored
        .iter()
        .map(|entry| {
            format!(
                "{}@{}",
                &entry.key["/registry/example.com/widgets/".len()..],
                entry.modified
            )
        })
        .collect();
    let snapshot = cache.expect("added").snapshot();
    let cached: Vec<String> = snapshot
        .range(None, None)
        .map(|entry| format!("{}@{}", entry.key(), entry.revision()))
        .collect();
    assert_eq!(cached, stored);
}

pub(crate) async fn a_resource_can_be_removed_while_it_is_added(
    harness: &mut impl ConformanceBackend,
) {
    let (gated, store, manager) = start_with_gated_widgets(harness).await;
    put(&*store, &format!("{WIDGETS}/ns/a"), ";;1").await;
    let adding = begin_adding_widgets(&manager, &gated).await;
    manager.remove(&prefix(WIDGETS)).await.expect("removed");
    let added = adding.await.expect("a task");
    assert!(
        matches!(added, Err(Error::RemovedWhileLoading { .. })),
        "{added:?}"
    );
    let adding = begin_adding_widgets(&manager, &gated).await;
    gated.open();
    let cache = adding.await.expect("a task").expect("added");
    assert_eq!(contents(&cache.snapshot()).len(), 1);
}

pub(crate) async fn an_abandoned_addition_does_not_block_its_prefix(
    harness: &mut impl ConformanceBackend,
) {
    let (gated, store, manager) = start_with_gated_widgets(harness).await;
    put(&*store, &format!("{WIDGETS}/ns/a"), ";;1").await;
    let abandoned = begin_adding_widgets(&manager, &gated).await;
    abandoned.abort();
    assert!(abandoned.await.expect_err("aborted").is_cancelled());
    // The load of the abandoned addition has not ended yet.
    let adding = begin_adding_widgets(&manager, &gated).await;
    gated.open();
    let cache = adding.await.expect("a task").expect("added");
    assert_eq!(contents(&cache.snapshot()).len(), 1);
}

pub(crate) async fn the_cache_of_an_abandoned_addition_is_dropped(
    harness: &mut impl ConformanceBackend,
) {
    let (gated, _, manager) = start_with_gated_widgets(harness).await;
    let widgets = resource(WIDGETS);
    let abandoned = tokio::spawn({
        let (manager, widgets) = (manager.clone(), widgets.clone());
        async move { manager.add(widgets).await }
    });
    eventually("widgets are read", || gated.pages_read() > 0).await;
    abandoned.abort();
    assert!(abandoned.await.expect_err("aborted").is_cancelled());
    gated.open();
    eventually("the cache is dropped", || {
        Arc::strong_count(&widgets.projector) == 1
    })
    .await;
    assert!(manager.cache(&widgets.prefix).is_none());
    manager.add(widgets).await.expect("added");
}

pub(crate) async fn a_cache_that_its_caller_has_not_received_is_removed(
    harness: &mut impl ConformanceBackend,
) {
    let (gated, _, manager) = start_with_gated_widgets(harness).await;
    let mut adding = Box::pin(manager.add(resource(WIDGETS)));
    tokio::select! {
        biased;
        added = &mut adding => panic!("added while the gate is closed: {added:?}"),
        () = std::future::ready(()) => {}
    }
    gated.open();
    eventually("the cache is visible", || {
        manager.cache(&prefix(WIDGETS)).is_some()
    })
    .await;
    drop(adding);
    manager.add(resource(WIDGETS)).await.expect("added again");
}

pub(crate) async fn an_addition_waits_for_an_earlier_removal(
    harness: &mut impl ConformanceBackend,
) {
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    put(&*store, &format!("{WIDGETS}/ns/a"), ";;1").await;
    manager.add(resource(WIDGETS)).await.expect("added");
    // Removed although no caller waits for it.
    drop(manager.remove(&prefix(WIDGETS)));
    let cache = manager.add(resource(WIDGETS)).await.expect("added again");
    assert_eq!(contents(&cache.snapshot()).len(), 1);
}
