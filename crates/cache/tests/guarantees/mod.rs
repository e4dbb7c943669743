//! The guarantees of the cache as test cases that run on every store backend.

mod additions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rhumb_cache::{
    CacheOptions, Error, EventKind, HistoryError, WatchEnd, WatchMessage, WatchRequest, WatchStart,
};
use rhumb_meta::Revision;
use rhumb_store::{ExpectedRevision, Store, Transaction};
use rhumb_store_conformance::ConformanceBackend;
use tokio::time::Instant;

pub(crate) use additions::*;

use crate::support::{
    contents, current, delete, drain, key, next, next_summary, pods, prefix, put, start, wait,
    watch,
};

/// Generates a test for every case, for one store harness.
#[macro_export]
macro_rules! guarantees {
    ($harness:ty) => {
        $crate::guarantees! { @cases $harness;
            watch_events_are_ordered_unique_and_complete,
            transactions_are_delivered_atomically,
            watches_are_resumable,
            bookmarks_are_resumable,
            a_watch_from_a_list_revision_has_no_gap,
            a_write_is_visible_to_its_writer,
            a_consistent_read_sees_writes_of_others,
            waiting_for_a_future_revision_times_out,
            watches_resume_after_a_restart,
            a_resource_can_be_added_and_removed_at_run_time,
            other_caches_advance_while_a_resource_is_added,
            a_resource_that_is_written_while_it_is_added_is_complete,
            a_resource_can_be_removed_while_it_is_added,
            an_abandoned_addition_does_not_block_its_prefix,
            the_cache_of_an_abandoned_addition_is_dropped,
            a_cache_that_its_caller_has_not_received_is_removed,
            an_addition_waits_for_an_earlier_removal,
            similar_prefixes_are_distinguished,
        }
    };
    (@cases $harness:ty; $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let mut harness = <$harness as rhumb_store_conformance::ConformanceBackend>::start().await;
                $crate::guarantees::$case(&mut harness).await;
            }
        )*
    };
}

/// Runs concurrent writers and returns the revisions of their puts.
async fn churn(store: &Arc<dyn Store>, writers: usize, writes: usize) -> Vec<Revision> {
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut revisions = Vec::new();
                for index in 0..writes {
                    let key = format!("pods/ns/{}", (index * 3 + writer) % 7);
                    let before = revisions.last().copied();
                    let revision = if index % 4 == 3 {
                        delete(&*store, &key).await
                    } else {
                        put(&*store, &key, &format!(";;{writer}.{index}")).await
                    };
                    // Deleting a missing key creates no revision; the result is then another writer's revision.
                    if index % 4 != 3 && Some(revision) != before {
                        revisions.push(revision);
                    }
                }
                revisions
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("a writer"));
    }
    all.sort();
    all
}

/// Applies an event to a model of the contents, and checks that it is a valid transition.
fn apply_event(state: &mut BTreeMap<String, String>, message: &WatchMessage) -> Option<Revision> {
    let WatchMessage::Event(event) = message else {
        return None;
    };
    let key = event.entry().key().to_string();
    let json = String::from_utf8(event.entry().json().to_vec()).expect("text");
    assert!(
        json.contains(&format!("\"rv\":{},", event.revision())),
        "{json}"
    );
    let before = match event.kind() {
        EventKind::Deleted => state.remove(&key),
        EventKind::Added | EventKind::Modified => state.insert(key, json),
    };
    assert_eq!(before.is_none(), event.kind() == EventKind::Added);
    Some(event.revision())
}

pub(crate) async fn watch_events_are_ordered_unique_and_complete(
    harness: &mut impl ConformanceBackend,
) {
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    let mut watchers: Vec<_> = (0..5)
        .map(|_| watch(&pods(&manager), WatchStart::Latest))
        .collect();
    let revisions = churn(&store, 4, 60).await;
    let last = put(&*store, "pods/ns/last", ";;end").await;
    wait(&manager, last).await;
    for watcher in &mut watchers {
        let (mut state, mut seen) = (BTreeMap::new(), Vec::new());
        while seen.last() != Some(&last) {
            let message = next(watcher).await.expect("a message");
            seen.extend(apply_event(&mut state, &message));
        }
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        assert!(revisions.iter().all(|revision| seen.contains(revision)));
        assert_eq!(state, contents(&pods(&manager).snapshot()));
    }
}

pub(crate) async fn transactions_are_delivered_atomically(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    put(&*store, "pods/ns/old", ";;x").await;
    let manager = start(&store, CacheOptions::default()).await;
    let mut watcher = watch(&pods(&manager), WatchStart::Latest);
    assert_eq!(drain(&mut watcher), Vec::<String>::new());
    for round in 0..20 {
        let both = Transaction::new()
            .put(
                "/registry/pods/ns/a",
                format!(";;{round}"),
                ExpectedRevision::Any,
            )
            .put(
                "/registry/pods/ns/b",
                format!(";;{round}"),
                ExpectedRevision::Any,
            );
        let revision = store.commit(both).await.expect("a transaction");
        let first = next(&mut watcher).await.expect("a message");
        assert_eq!(watcher.progress(), None, "the second event is pending");
        let second = watcher.try_next().expect("a live watch").expect("is there");
        let mut state = BTreeMap::from([("ns/a", round > 0), ("ns/b", round > 0)]);
        for message in [first, second] {
            let WatchMessage::Event(event) = message else {
                panic!("{message:?}");
            };
            assert_eq!(event.revision(), revision);
            let existed = state.remove(event.entry().key().as_str()).expect("once");
            assert_eq!(existed, event.kind() == EventKind::Modified);
        }
        let snapshot = pods(&manager).snapshot();
        let body = |name| {
            let entry = snapshot.get(&key(name)).expect("readable").expect("there");
            entry.json()
        };
        assert_eq!(body("ns/a"), body("ns/b"));
    }
}

pub(crate) async fn watches_are_resumable(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    let begin = current(&manager).await;
    let mut whole = watch(&pods(&manager), WatchStart::After(begin));
    churn(&store, 3, 30).await;
    current(&manager).await;
    let mut all = Vec::new();
    while let Some(message) = whole.try_next().expect("a live watch") {
        let WatchMessage::Event(event) = &message else {
            panic!("{message:?}");
        };
        all.push((event.revision(), crate::support::summarize(&message)));
    }
    assert!(all.len() > 60);
    let starts = std::iter::once(begin).chain(all.iter().map(|(revision, _)| *revision));
    for from in starts {
        let mut resumed = watch(&pods(&manager), WatchStart::After(from));
        let rest = all.iter().filter(|(revision, _)| *revision > from);
        let rest: Vec<_> = rest.map(|(_, sketch)| sketch.clone()).collect();
        assert_eq!(drain(&mut resumed), rest);
    }
    if begin > Revision::new(1) {
        let too_old = WatchStart::After(Revision::ZERO);
        let refused = pods(&manager).watch(WatchRequest::everything(too_old));
        assert!(
            matches!(refused, Err(HistoryError::Expired { .. })),
            "{refused:?}"
        );
    }
}

pub(crate) async fn bookmarks_are_resumable(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    let mut watcher = watch(&pods(&manager), WatchStart::Latest);
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move { churn(&store, 3, 40).await }
    });
    let (mut state, mut floor, mut bookmarks) = (BTreeMap::new(), Revision::ZERO, 0);
    while !writer.is_finished() || watcher.progress() < Some(manager.applied_revision()) {
        let soon = tokio::time::timeout(Duration::from_millis(5), watcher.next()).await;
        if let Ok(message) = soon {
            let revision = apply_event(&mut state, &message.expect("a message")).expect("an event");
            assert!(
                revision > floor,
                "{revision} was delivered after bookmark {floor}"
            );
        }
        if let Some(progress) = watcher.progress() {
            assert!(progress >= floor, "{progress} after {floor}");
            (floor, bookmarks) = (progress, bookmarks + 1);
        }
    }
    assert!(bookmarks > 0);
    current(&manager).await;
    while watcher.try_next().expect("a live watch").is_some() {}
    // Changes of other resources advance bookmarks as well.
    let elsewhere = put(&*store, "services/specs/ns/a", ";;x").await;
    wait(&manager, elsewhere).await;
    assert!(watcher.progress() >= Some(elsewhere));
}

pub(crate) async fn a_watch_from_a_list_revision_has_no_gap(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    for index in 0..600 {
        if index % 100 == 0 {
            put(&*store, &format!("pods/other/{index}"), ";;x").await;
        }
    }
    let manager = start(&store, CacheOptions::default()).await;
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move { churn(&store, 3, 40).await }
    });
    let mut watcher = watch(&pods(&manager), WatchStart::InitialList);
    let (mut state, mut listed) = (BTreeMap::new(), None);
    while listed.is_none() {
        match next(&mut watcher).await.expect("a message") {
            WatchMessage::InitialEventsEnd(revision) => listed = Some(revision),
            message => {
                assert_eq!(watcher.progress(), None);
                let _ = apply_event(&mut state, &message);
            }
        }
    }
    let listed = listed.expect("the end of the list");
    writer.await.expect("the writers");
    current(&manager).await;
    while let Some(message) = watcher.try_next().expect("a live watch") {
        assert!(apply_event(&mut state, &message) > Some(listed));
    }
    assert_eq!(state, contents(&pods(&manager).snapshot()));
}

pub(crate) async fn a_write_is_visible_to_its_writer(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    for round in 0..50 {
        let revision = put(&*store, "pods/ns/a", &format!(";;{round}")).await;
        wait(&manager, revision).await;
        let snapshot = pods(&manager).snapshot();
        let entry = snapshot
            .get(&key("ns/a"))
            .expect("readable")
            .expect("there");
        assert_eq!(entry.revision(), revision);
        let alone = pods(&manager).get(&key("ns/a")).expect("readable");
        assert_eq!(alone.expect("there").revision(), revision);
        assert!(snapshot.revision() >= revision);
    }
}

pub(crate) async fn a_consistent_read_sees_writes_of_others(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    for round in 0..20 {
        let written = put(&*store, "pods/ns/a", &format!(";;{round}")).await;
        if harness.supports_progress() {
            // The change stream does not deliver this write, as it is not below the root.
            let elsewhere = Transaction::new().put("/other", "x", ExpectedRevision::Any);
            store.commit(elsewhere).await.expect("a put");
        }
        assert!(current(&manager).await >= written);
        let snapshot = pods(&manager).snapshot();
        let entry = snapshot
            .get(&key("ns/a"))
            .expect("readable")
            .expect("there");
        assert_eq!(entry.revision(), written);
    }
}

pub(crate) async fn waiting_for_a_future_revision_times_out(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    let now = put(&*store, "pods/ns/a", ";;x").await;
    let future = Revision::new(now.get() + 1000);
    let deadline = Instant::now() + Duration::from_millis(50);
    let waited = manager.wait_for_revision(future, deadline).await;
    assert!(
        matches!(waited, Err(Error::RevisionTimeout { requested, .. }) if requested == future),
        "{waited:?}"
    );
    let refused = pods(&manager)
        .snapshot_at(future)
        .expect_err("not there yet");
    assert!(
        matches!(refused, HistoryError::FutureRevision { .. }),
        "{refused}"
    );
    // A watch may start at a future revision.
    let after = Revision::new(now.get() + 2);
    let mut watcher = watch(&pods(&manager), WatchStart::After(after));
    let mut expected = None;
    while expected.is_none() {
        let revision = put(&*store, "pods/ns/a", ";;y").await;
        expected = (revision > after).then_some(revision);
    }
    let expected = expected.expect("a later write");
    assert_eq!(
        next_summary(&mut watcher).await,
        format!("~ns/a@{expected}")
    );
}

pub(crate) async fn watches_resume_after_a_restart(harness: &mut impl ConformanceBackend) {
    let (first, second) = {
        let store = harness.store();
        let manager = start(&store, CacheOptions::default()).await;
        let mut watcher = watch(&pods(&manager), WatchStart::Latest);
        let first = put(&*store, "pods/ns/a", ";;1").await;
        assert_eq!(next_summary(&mut watcher).await, format!("+ns/a@{first}"));
        let second = put(&*store, "pods/ns/b", ";;2").await;
        delete(&*store, "pods/ns/a").await;
        manager.close().await;
        // Applied changes are still delivered, then the watch ends.
        let end = loop {
            if let Err(end) = next(&mut watcher).await {
                break end;
            }
        };
        assert_eq!(end, WatchEnd::Closing);
        assert!(matches!(
            manager
                .wait_for_revision(
                    Revision::new(u64::MAX),
                    Instant::now() + Duration::from_secs(9)
                )
                .await,
            Err(Error::Closed)
        ));
        (first, second)
    };
    harness.restart().await;
    let store = harness.store();
    let manager = start(&store, CacheOptions::default()).await;
    let third = put(&*store, "pods/ns/b", ";;3").await;
    wait(&manager, third).await;
    if harness.supports_progress() {
        let mut resumed = watch(&pods(&manager), WatchStart::After(first));
        let delivered = drain(&mut resumed);
        assert_eq!(delivered.len(), 3, "{delivered:?}");
        assert_eq!(
            [&delivered[0], &delivered[2]],
            [&format!("+ns/b@{second}"), &format!("~ns/b@{third}")]
        );
    }
    let mut fresh = watch(&pods(&manager), WatchStart::InitialList);
    assert_eq!(drain(&mut fresh)[0], format!("+ns/b@{third}"));
}

pub(crate) async fn similar_prefixes_are_distinguished(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    put(&*store, "services/specs/ns/a", ";;spec").await;
    put(&*store, "services/endpoints/ns/a", ";;endpoints").await;
    put(&*store, "podsets/ns/a", ";;other").await;
    let manager = start(&store, CacheOptions::default()).await;
    put(&*store, "services/endpoints/ns/b", ";;endpoints").await;
    put(&*store, "podsets/ns/b", ";;other").await;
    let last = put(&*store, "services/specs/ns/c", ";;spec").await;
    wait(&manager, last).await;
    for (name, body, expect) in [
        ("services/specs", "spec", vec!["ns/a", "ns/c"]),
        ("services/endpoints", "endpoints", vec!["ns/a", "ns/b"]),
        ("pods", "", vec![]),
    ] {
        let snapshot = manager.cache(&prefix(name)).expect("cached").snapshot();
        let contents = contents(&snapshot);
        assert_eq!(contents.keys().collect::<Vec<_>>(), expect);
        assert!(
            contents
                .values()
                .all(|json| json.contains(&format!("\"{body}\"")))
        );
        // Without progress notifications, a marker write may have advanced the revision.
        assert!(snapshot.revision() >= last);
    }
}
