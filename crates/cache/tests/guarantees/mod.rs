//! What a watcher is promised, one named case each, on every backend.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rhumb_cache::{Error, EventKind, HistoryError, Message, Options, Start, WatchEnd};
use rhumb_meta::Revision;
use rhumb_store::{Expect, Store, Transaction};
use rhumb_store_conformance::Harness;
use tokio::time::Instant;

use crate::support::{
    contents, current, delete, drain, key, next, next_sketch, pods, prefix, put, start, wait, watch,
};

/// Makes a test of every case for one harness.
#[macro_export]
macro_rules! guarantees {
    ($harness:ty) => {
        $crate::guarantees! { @cases $harness;
            ordered_unique_and_reliable,
            atomic,
            resumable,
            bookmarkable,
            a_list_and_its_changes_fit_together,
            a_write_is_read_by_its_writer,
            a_consistent_read_sees_what_others_wrote,
            a_revision_of_the_future_is_waited_for_in_vain,
            watches_go_on_after_a_restart,
            a_resource_can_be_added_and_removed_at_run_time,
            prefixes_are_told_apart,
        }
    };
    (@cases $harness:ty; $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let mut harness = <$harness as rhumb_store_conformance::Harness>::start().await;
                $crate::guarantees::$case(&mut harness).await;
            }
        )*
    };
}

/// Writers at once; returns every revision that they made.
async fn churn(store: &Arc<dyn Store>, writers: usize, writes: usize) -> Vec<Revision> {
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut made = Vec::new();
                for index in 0..writes {
                    let key = format!("pods/ns/{}", (index * 3 + writer) % 7);
                    let before = made.last().copied();
                    let revision = if index % 4 == 3 {
                        delete(&*store, &key).await
                    } else {
                        put(&*store, &key, &format!(";;{writer}.{index}")).await
                    };
                    // Deleting nothing makes no revision: the answer is then one of others.
                    if index % 4 != 3 && Some(revision) != before {
                        made.push(revision);
                    }
                }
                made
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

/// Follows the events on a map, and checks that each is possible where the map stands.
fn follow(state: &mut BTreeMap<String, String>, message: &Message) -> Option<Revision> {
    let Message::Event(event) = message else {
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

pub(crate) async fn ordered_unique_and_reliable(harness: &mut impl Harness) {
    let store = harness.store();
    let hub = start(&store, Options::default()).await;
    let mut watchers: Vec<_> = (0..5).map(|_| watch(&pods(&hub), Start::Latest)).collect();
    let made = churn(&store, 4, 60).await;
    let last = put(&*store, "pods/ns/last", ";;end").await;
    wait(&hub, last).await;
    for watcher in &mut watchers {
        let (mut state, mut seen) = (BTreeMap::new(), Vec::new());
        while seen.last() != Some(&last) {
            let message = next(watcher).await.expect("a message");
            seen.extend(follow(&mut state, &message));
        }
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        assert!(made.iter().all(|revision| seen.contains(revision)));
        assert_eq!(state, contents(&pods(&hub).snapshot()));
    }
}

pub(crate) async fn atomic(harness: &mut impl Harness) {
    let store = harness.store();
    put(&*store, "pods/ns/old", ";;x").await;
    let hub = start(&store, Options::default()).await;
    let mut watcher = watch(&pods(&hub), Start::Latest);
    assert_eq!(drain(&mut watcher), Vec::<String>::new());
    for round in 0..20 {
        let both = Transaction::new()
            .put("/registry/pods/ns/a", format!(";;{round}"), Expect::Any)
            .put("/registry/pods/ns/b", format!(";;{round}"), Expect::Any);
        let revision = store.commit(both).await.expect("a transaction");
        let first = next(&mut watcher).await.expect("a message");
        assert_eq!(watcher.progress(), None, "the other half waits");
        let second = watcher.try_next().expect("a live watch").expect("is there");
        let mut state = BTreeMap::from([("ns/a", round > 0), ("ns/b", round > 0)]);
        for message in [first, second] {
            let Message::Event(event) = message else {
                panic!("{message:?}");
            };
            assert_eq!(event.revision(), revision);
            let existed = state.remove(event.entry().key().as_str()).expect("once");
            assert_eq!(existed, event.kind() == EventKind::Modified);
        }
        let snapshot = pods(&hub).snapshot();
        let body = |name| {
            let entry = snapshot.get(&key(name)).expect("readable").expect("there");
            entry.json()
        };
        assert_eq!(body("ns/a"), body("ns/b"));
    }
}

pub(crate) async fn resumable(harness: &mut impl Harness) {
    let store = harness.store();
    let hub = start(&store, Options::default()).await;
    let begin = current(&hub).await;
    let mut whole = watch(&pods(&hub), Start::After(begin));
    churn(&store, 3, 30).await;
    current(&hub).await;
    let mut all = Vec::new();
    while let Some(message) = whole.try_next().expect("a live watch") {
        let Message::Event(event) = &message else {
            panic!("{message:?}");
        };
        all.push((event.revision(), crate::support::sketch(&message)));
    }
    assert!(all.len() > 60);
    let starts = std::iter::once(begin).chain(all.iter().map(|(revision, _)| *revision));
    for from in starts {
        let mut resumed = watch(&pods(&hub), Start::After(from));
        let rest = all.iter().filter(|(revision, _)| *revision > from);
        let rest: Vec<_> = rest.map(|(_, sketch)| sketch.clone()).collect();
        assert_eq!(drain(&mut resumed), rest);
    }
    if begin > Revision::new(1) {
        let too_old = Start::After(Revision::ZERO);
        let refused = pods(&hub).watch(rhumb_cache::WatchRequest::everything(too_old));
        assert!(
            matches!(refused, Err(HistoryError::Expired { .. })),
            "{refused:?}"
        );
    }
}

pub(crate) async fn bookmarkable(harness: &mut impl Harness) {
    let store = harness.store();
    let hub = start(&store, Options::default()).await;
    let mut watcher = watch(&pods(&hub), Start::Latest);
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move { churn(&store, 3, 40).await }
    });
    let (mut state, mut floor, mut bookmarks) = (BTreeMap::new(), Revision::ZERO, 0);
    while !writer.is_finished() || watcher.progress() < Some(hub.revision()) {
        let soon = tokio::time::timeout(Duration::from_millis(5), watcher.next()).await;
        if let Ok(message) = soon {
            let revision = follow(&mut state, &message.expect("a message")).expect("an event");
            assert!(
                revision > floor,
                "{revision} came after {floor} was promised"
            );
        }
        if let Some(progress) = watcher.progress() {
            assert!(progress >= floor, "{progress} after {floor}");
            (floor, bookmarks) = (progress, bookmarks + 1);
        }
    }
    assert!(bookmarks > 0);
    current(&hub).await;
    while watcher.try_next().expect("a live watch").is_some() {}
    // What changes elsewhere moves bookmarks on as well.
    let elsewhere = put(&*store, "services/specs/ns/a", ";;x").await;
    wait(&hub, elsewhere).await;
    assert!(watcher.progress() >= Some(elsewhere));
}

pub(crate) async fn a_list_and_its_changes_fit_together(harness: &mut impl Harness) {
    let store = harness.store();
    for index in 0..600 {
        if index % 100 == 0 {
            put(&*store, &format!("pods/other/{index}"), ";;x").await;
        }
    }
    let hub = start(&store, Options::default()).await;
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move { churn(&store, 3, 40).await }
    });
    let mut watcher = watch(&pods(&hub), Start::List);
    let (mut state, mut listed) = (BTreeMap::new(), None);
    while listed.is_none() {
        match next(&mut watcher).await.expect("a message") {
            Message::InitialEnd(revision) => listed = Some(revision),
            message => {
                assert_eq!(watcher.progress(), None);
                let _ = follow(&mut state, &message);
            }
        }
    }
    let listed = listed.expect("the end of the list");
    writer.await.expect("the writers");
    current(&hub).await;
    while let Some(message) = watcher.try_next().expect("a live watch") {
        assert!(follow(&mut state, &message) > Some(listed));
    }
    assert_eq!(state, contents(&pods(&hub).snapshot()));
}

pub(crate) async fn a_write_is_read_by_its_writer(harness: &mut impl Harness) {
    let store = harness.store();
    let hub = start(&store, Options::default()).await;
    for round in 0..50 {
        let revision = put(&*store, "pods/ns/a", &format!(";;{round}")).await;
        wait(&hub, revision).await;
        let snapshot = pods(&hub).snapshot();
        let entry = snapshot
            .get(&key("ns/a"))
            .expect("readable")
            .expect("there");
        assert_eq!(entry.revision(), revision);
        let alone = pods(&hub).get(&key("ns/a")).expect("readable");
        assert_eq!(alone.expect("there").revision(), revision);
        assert!(snapshot.revision() >= revision);
    }
}

pub(crate) async fn a_consistent_read_sees_what_others_wrote(harness: &mut impl Harness) {
    let store = harness.store();
    let hub = start(&store, Options::default()).await;
    for round in 0..20 {
        let written = put(&*store, "pods/ns/a", &format!(";;{round}")).await;
        if harness.tells_progress() {
            // Nothing below the root tells of this one.
            let elsewhere = Transaction::new().put("/other", "x", Expect::Any);
            store.commit(elsewhere).await.expect("a put");
        }
        assert!(current(&hub).await >= written);
        let snapshot = pods(&hub).snapshot();
        let entry = snapshot
            .get(&key("ns/a"))
            .expect("readable")
            .expect("there");
        assert_eq!(entry.revision(), written);
    }
}

pub(crate) async fn a_revision_of_the_future_is_waited_for_in_vain(harness: &mut impl Harness) {
    let store = harness.store();
    let hub = start(&store, Options::default()).await;
    let now = put(&*store, "pods/ns/a", ";;x").await;
    let future = Revision::new(now.get() + 1000);
    let deadline = Instant::now() + Duration::from_millis(50);
    let waited = hub.wait_for(future, deadline).await;
    assert!(
        matches!(waited, Err(Error::Behind { requested, .. }) if requested == future),
        "{waited:?}"
    );
    let refused = pods(&hub).snapshot_at(future).expect_err("not there yet");
    assert!(matches!(refused, HistoryError::Future { .. }), "{refused}");
    // A watch may begin there.
    let after = Revision::new(now.get() + 2);
    let mut watcher = watch(&pods(&hub), Start::After(after));
    let mut expected = None;
    while expected.is_none() {
        let revision = put(&*store, "pods/ns/a", ";;y").await;
        expected = (revision > after).then_some(revision);
    }
    let expected = expected.expect("a later write");
    assert_eq!(next_sketch(&mut watcher).await, format!("~ns/a@{expected}"));
}

pub(crate) async fn watches_go_on_after_a_restart(harness: &mut impl Harness) {
    let (first, second) = {
        let store = harness.store();
        let hub = start(&store, Options::default()).await;
        let mut watcher = watch(&pods(&hub), Start::Latest);
        let first = put(&*store, "pods/ns/a", ";;1").await;
        assert_eq!(next_sketch(&mut watcher).await, format!("+ns/a@{first}"));
        let second = put(&*store, "pods/ns/b", ";;2").await;
        delete(&*store, "pods/ns/a").await;
        hub.close().await;
        // What had been applied is told, then the end.
        let end = loop {
            if let Err(end) = next(&mut watcher).await {
                break end;
            }
        };
        assert_eq!(end, WatchEnd::Closing);
        assert!(matches!(
            hub.wait_for(
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
    let hub = start(&store, Options::default()).await;
    let third = put(&*store, "pods/ns/b", ";;3").await;
    wait(&hub, third).await;
    if harness.tells_progress() {
        let mut resumed = watch(&pods(&hub), Start::After(first));
        let told = drain(&mut resumed);
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(
            [&told[0], &told[2]],
            [&format!("+ns/b@{second}"), &format!("~ns/b@{third}")]
        );
    }
    let mut fresh = watch(&pods(&hub), Start::List);
    assert_eq!(drain(&mut fresh)[0], format!("+ns/b@{third}"));
}

pub(crate) async fn a_resource_can_be_added_and_removed_at_run_time(harness: &mut impl Harness) {
    let store = harness.store();
    let hub = start(&store, Options::default()).await;
    let widgets = crate::support::resource("example.com/widgets");
    put(&*store, "example.com/widgets/ns/a", ";;1").await;
    let last = put(&*store, "example.com/widgets/ns/b", ";;2").await;
    assert!(hub.cache(&widgets.prefix).is_none());
    let cache = hub.add(widgets.clone()).await.expect("a new resource");
    assert!(hub.revision() >= last);
    assert_eq!(contents(&cache.snapshot()).len(), 2);
    assert!(matches!(
        hub.add(widgets.clone()).await,
        Err(Error::Duplicate { .. })
    ));
    let mut watcher = watch(&cache, Start::Latest);
    let third = put(&*store, "example.com/widgets/ns/a", ";;3").await;
    assert_eq!(next_sketch(&mut watcher).await, format!("~ns/a@{third}"));
    hub.remove(&widgets.prefix).await.expect("removed");
    assert_eq!(
        next(&mut watcher).await.expect_err("over"),
        WatchEnd::Removed
    );
    assert!(hub.cache(&widgets.prefix).is_none());
    let again = hub.add(widgets).await.expect("added again");
    assert_eq!(contents(&again.snapshot()).len(), 2);
}

pub(crate) async fn prefixes_are_told_apart(harness: &mut impl Harness) {
    let store = harness.store();
    put(&*store, "services/specs/ns/a", ";;spec").await;
    put(&*store, "services/endpoints/ns/a", ";;endpoints").await;
    put(&*store, "podsets/ns/a", ";;other").await;
    let hub = start(&store, Options::default()).await;
    put(&*store, "services/endpoints/ns/b", ";;endpoints").await;
    put(&*store, "podsets/ns/b", ";;other").await;
    let last = put(&*store, "services/specs/ns/c", ";;spec").await;
    wait(&hub, last).await;
    for (name, body, expect) in [
        ("services/specs", "spec", vec!["ns/a", "ns/c"]),
        ("services/endpoints", "endpoints", vec!["ns/a", "ns/b"]),
        ("pods", "", vec![]),
    ] {
        let snapshot = hub.cache(&prefix(name)).expect("cached").snapshot();
        let contents = contents(&snapshot);
        assert_eq!(contents.keys().collect::<Vec<_>>(), expect);
        assert!(
            contents
                .values()
                .all(|json| json.contains(&format!("\"{body}\"")))
        );
        // A store that cannot tell progress may have been pushed on meanwhile.
        assert!(snapshot.revision() >= last);
    }
}
