//! List indexes: the same results as a scan with fewer examined objects, and the life cycle of adaptive indexes.

mod support;

use std::sync::Arc;
use std::time::Duration;

use rhumb_cache::{
    CacheManager, CacheOptions, CacheSnapshot, IndexOptions, IndexOrigin, IndexedAttribute,
    ListQuery, ResourceCache, WatchRequest, WatchScope,
};
use rhumb_meta::{Clock, ManualClock, ObjectKey};
use rhumb_store::{ExpectedRevision, Store, Transaction};
use rhumb_store_conformance::SeededRng;
use support::memory_store::MemoryStore;
use support::random::{RandomObject, random_request};
use support::{ROOT, TEST_TIMEOUT, current, delete, drain, key, pods, put, start};

const TRANSACTIONS: usize = 4_000;

fn only_declared_fields() -> IndexOptions {
    IndexOptions {
        by_label: false,
        ..IndexOptions::default()
    }
}

async fn start_manager(store: &Arc<dyn Store>, index: IndexOptions) -> CacheManager {
    let options = CacheOptions {
        index,
        ..CacheOptions::default()
    };
    start(store, options).await
}

fn list(
    cache: &ResourceCache,
    snapshot: &CacheSnapshot,
    request: &WatchRequest,
    after: Option<&ObjectKey>,
) -> Vec<String> {
    let namespace = match &request.scope {
        WatchScope::Namespace(namespace) => Some(&**namespace),
        WatchScope::All | WatchScope::Object { .. } => None,
    };
    let query = ListQuery {
        namespace,
        after,
        labels: &request.labels,
        fields: &request.fields,
        limit: usize::MAX,
    };
    cache
        .list(snapshot, &query)
        .map(|entry| format!("{}@{}", entry.key(), entry.revision()))
        .collect()
}

/// Puts or deletes one or two random objects.
async fn write(store: &dyn Store, random: &mut SeededRng) {
    let mut transaction = Transaction::new();
    for namespace in 0..=random.below(2) {
        let path = format!("{ROOT}pods/ns{namespace}/o{}", random.below(12));
        transaction = match random.below(5) {
            0 => transaction.delete(path, ExpectedRevision::Any),
            _ => transaction.put(
                path,
                RandomObject::random(random).to_stored(),
                ExpectedRevision::Any,
            ),
        };
    }
    store.commit(transaction).await.expect("a commit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_watches_are_equal_with_and_without_indexes() {
    let random = &mut SeededRng::new(7);
    let memory = MemoryStore::new();
    let store: Arc<dyn Store> = memory.clone();
    let (with, without) = (
        start_manager(&store, IndexOptions::default()).await,
        start_manager(&store, only_declared_fields()).await,
    );
    let (indexed, plain) = (pods(&with), pods(&without));
    assert_eq!(
        (indexed.index_stats().len(), plain.index_stats().len()),
        (2, 1)
    );
    let mut watchers = Vec::new();
    for index in 0..TRANSACTIONS {
        write(&*store, random).await;
        if index % 20 > 0 {
            continue;
        }
        current(&with).await;
        let revision = current(&without).await;
        let after = (random.below(3) == 0).then(|| key(&format!("ns1/o{}", random.below(12))));
        for _ in 0..20 {
            let request = random_request(random);
            let ask = |cache: &ResourceCache, snapshot: &CacheSnapshot| {
                list(cache, snapshot, &request, after.as_ref())
            };
            let answer = ask(&indexed, &indexed.snapshot());
            assert_eq!(answer, ask(&plain, &plain.snapshot()), "{request:?}");
            let at = revision.get() - random.below(60).min(index) as u64;
            let past = |cache: &ResourceCache| cache.snapshot_at(rhumb_meta::Revision::new(at));
            let (a, b) = (
                past(&indexed).expect("a past"),
                past(&plain).expect("a past"),
            );
            assert_eq!(ask(&indexed, &a), ask(&plain, &b), "{request:?} at {at}");
        }
        if index % 100 == 0 {
            let request = random_request(random);
            watchers.push(
                [&indexed, &plain].map(|cache| cache.watch(request.clone()).expect("a watch")),
            );
        }
        for [a, b] in &mut watchers {
            assert_eq!(drain(a), drain(b));
        }
    }
    let (a, b) = (indexed.stats(), plain.stats());
    assert_eq!(a.list_matched, b.list_matched);
    assert!(a.list_examined < b.list_examined, "{a:?} {b:?}");
}

/// Writes pods: each hundred share an `app`, each ten a `job`, and all have the same `area`.
async fn write_labelled_pods(store: &dyn Store, objects: usize) {
    for index in 0..objects {
        let (namespace, app, job) = (index % 5, index / 100, index / 10);
        let labels = format!("app=a{app},area=t,job=j{job}");
        let value = format!("{labels};n{},Running;x", index % 50);
        put(store, &format!("pods/ns{namespace}/o{index:05}"), &value).await;
    }
}

fn request(labels: &str, fields: &str) -> WatchRequest {
    WatchRequest {
        labels: labels.parse().expect(labels),
        fields: fields.parse().expect(fields),
        ..WatchRequest::everything(rhumb_cache::WatchStart::Latest)
    }
}

/// Number of objects that a list examines, and of those that match.
fn examined_and_matched(cache: &ResourceCache, request: &WatchRequest) -> (u64, usize) {
    let before = cache.stats().list_examined;
    let matched = list(cache, &cache.snapshot(), request, None).len();
    (cache.stats().list_examined - before, matched)
}

#[tokio::test]
async fn a_list_uses_the_shortest_access_path() {
    let memory = MemoryStore::new();
    write_labelled_pods(&*memory, 2_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let manager = start_manager(&store, IndexOptions::default()).await;
    let cache = pods(&manager);
    let check = |labels: &str, fields: &str, examined: u64, matched: usize| {
        let request = request(labels, fields);
        assert_eq!(
            examined_and_matched(&cache, &request),
            (examined, matched),
            "{labels} {fields}"
        );
    };
    check("app=a3", "", 100, 100);
    check("app=none", "", 0, 0);
    check("app=a3,job=j30", "", 100, 10);
    check("app in (a3,a4)", "", 200, 200);
    check("", "node=n7", 40, 40);
    check("app=a3", "node=n7", 40, 2);
    check(
        "app=a3",
        "metadata.name=o00301,metadata.namespace=ns1",
        1,
        1,
    );
    check(
        "app=a3",
        "metadata.name=o00301,metadata.namespace=ns2",
        0,
        0,
    );
    check("app!=a3", "", 2_000, 1_900);
    check("job=j3", "", 2_000, 10);
}

#[tokio::test]
async fn without_label_indexes_declared_fields_stay_indexed() {
    let memory = MemoryStore::new();
    write_labelled_pods(&*memory, 2_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let manager = start_manager(&store, only_declared_fields()).await;
    let cache = pods(&manager);
    let examined = |labels, fields| examined_and_matched(&cache, &request(labels, fields));
    assert_eq!(examined("", "node=n7"), (40, 40));
    assert_eq!(examined("app=a3", "node=n7"), (40, 2));
    assert_eq!(examined("app=a3", ""), (2_000, 100));
    assert_eq!(examined("", "phase=Running"), (2_000, 2_000));

    let watch = |node| cache.watch(request("", &format!("node=n{node}")));
    let mut watchers: Vec<_> = (0..500).map(|node| watch(node).expect("a watch")).collect();
    // Without watchers.
    let before = cache.watchers_evaluated();
    assert_eq!(before.sum, 0);
    put(&*store, "pods/ns0/new", "app=a1;n7,Pending;x").await;
    current(&manager).await;
    let evaluated = cache.watchers_evaluated();
    assert_eq!((evaluated.count - before.count, evaluated.sum), (1, 1));
    let received = watchers.iter_mut().map(|watcher| drain(watcher).len());
    assert_eq!(received.sum::<usize>(), 1);
}

#[tokio::test]
async fn two_indexes_are_intersected() {
    let memory = MemoryStore::new();
    // One in twenty pods has the app label; the pods of the node are all in a few namespaces.
    for index in 0..20_000 {
        let node = if index < 1_000 { "n1" } else { "n2" };
        let app = if index % 20 == 0 { "web" } else { "other" };
        let value = format!("app={app};{node},Running;x");
        put(
            &*memory,
            &format!("pods/ns{:03}/o{index:05}", index / 100),
            &value,
        )
        .await;
    }
    let store: Arc<dyn Store> = memory.clone();
    let manager = start_manager(&store, IndexOptions::default()).await;
    let (examined, matched) = examined_and_matched(&pods(&manager), &request("app=web", "node=n1"));
    assert_eq!(matched, 50);
    assert!(examined < 200, "{examined}");
}

/// Polls until the condition holds.
async fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "timed out waiting for the condition"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn adaptive(cache: &ResourceCache) -> Vec<IndexedAttribute> {
    let all = cache.index_stats().into_iter();
    let adaptive = all.filter(|stats| stats.origin == IndexOrigin::Adaptive);
    adaptive.map(|stats| stats.attribute).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frequent_lists_get_an_adaptive_index() {
    let memory = MemoryStore::new();
    write_labelled_pods(&*memory, 5_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let with = start_manager(&store, IndexOptions::default()).await;
    let cache = pods(&with);
    // The first label is shared by all objects, so its index would not help.
    let query = request("area=t,job=j3", "");
    assert_eq!(examined_and_matched(&cache, &query), (5_000, 10));
    assert_eq!(adaptive(&cache), []);
    wait_until(|| {
        examined_and_matched(&cache, &query);
        !adaptive(&cache).is_empty()
    })
    .await;
    assert_eq!(adaptive(&cache), [IndexedAttribute::Label("job".into())]);
    assert_eq!(examined_and_matched(&cache, &query), (10, 10));
    // The index is updated by changes.
    for job in ["j3", "j4", "j3"] {
        put(
            &*store,
            "pods/ns0/new",
            &format!("area=t,job={job};n1,Running;x"),
        )
        .await;
        current(&with).await;
        let matched = if job == "j3" { 11 } else { 10 };
        assert_eq!(examined_and_matched(&cache, &query).1, matched, "{job}");
    }
    // The index survives a full reload of the cache.
    memory.fail_with(rhumb_store::Error::Compacted {
        requested: rhumb_meta::Revision::new(1),
        oldest: rhumb_meta::Revision::new(2),
    });
    wait_until(|| !with.health().is_ready()).await;
    memory.clear_failure();
    wait_until(|| with.health().is_ready()).await;
    put(&*store, "pods/ns0/newer", "area=t,job=j3;n1,Running;x").await;
    current(&with).await;
    assert_eq!(examined_and_matched(&cache, &query), (12, 12));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_exceeds_the_budget_is_not_built() {
    let memory = MemoryStore::new();
    write_labelled_pods(&*memory, 2_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let small = IndexOptions {
        adaptive_bytes_max: 1_000,
        ..IndexOptions::default()
    };
    let never = IndexOptions {
        adaptive: false,
        ..IndexOptions::default()
    };
    for index in [small, never] {
        let manager = start_manager(&store, index).await;
        let cache = pods(&manager);
        for _ in 0..100 {
            examined_and_matched(&cache, &request("job=j3", ""));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(adaptive(&cache), []);
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_adaptive_index_is_dropped() {
    let memory = MemoryStore::new();
    write_labelled_pods(&*memory, 2_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let clock = Arc::new(ManualClock::default());
    let options = CacheOptions {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..CacheOptions::default()
    };
    let manager = start(&store, options).await;
    let cache = pods(&manager);
    let query = request("job=j3", "");
    for _ in 0..100 {
        examined_and_matched(&cache, &query);
    }
    wait_until(|| !adaptive(&cache).is_empty()).await;
    assert_eq!(examined_and_matched(&cache, &query), (10, 10));
    // Long enough for the reflector to run its maintenance.
    let idle_period = || tokio::time::sleep(Duration::from_secs(60));
    clock.advance(Duration::from_secs(590));
    idle_period().await;
    assert_eq!(adaptive(&cache).len(), 1);
    clock.advance(Duration::from_secs(20));
    idle_period().await;
    assert_eq!(adaptive(&cache), []);
    let counted = cache.lists_by_index();
    let job = &counted[&IndexedAttribute::Label("job".into())];
    assert!(job.lists > 0 && job.examined == 10 * job.lists, "{job:?}");
    assert_eq!(examined_and_matched(&cache, &query), (2_000, 10));
    // The index can be built again: its budget was released.
    for _ in 0..100 {
        examined_and_matched(&cache, &query);
    }
    wait_until(|| !adaptive(&cache).is_empty()).await;
}

/// Selectivity is measured for the values that lists request, not for all values of the label.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rare_value_of_a_common_label_gets_an_index() {
    let memory = MemoryStore::new();
    for index in 0..2_000 {
        let role = if index % 100 == 0 {
            "driver"
        } else {
            "executor"
        };
        let value = format!("role={role};n1,Running;x");
        put(&*memory, &format!("pods/ns/o{index:05}"), &value).await;
    }
    let store: Arc<dyn Store> = memory.clone();
    let manager = start_manager(&store, IndexOptions::default()).await;
    let cache = pods(&manager);
    let query = request("role=driver", "");
    wait_until(|| {
        examined_and_matched(&cache, &query);
        !adaptive(&cache).is_empty()
    })
    .await;
    assert_eq!(examined_and_matched(&cache, &query), (20, 20));
}

/// Lists with many meaningless selectors, as a malicious client may send, get no indexes and do not displace others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn meaningless_selectors_get_no_index_and_displace_none() {
    let memory = MemoryStore::new();
    write_labelled_pods(&*memory, 1_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let manager = start_manager(&store, IndexOptions::default()).await;
    let cache = pods(&manager);
    for key in 0..300 {
        for _ in 0..20 {
            examined_and_matched(&cache, &request(&format!("junk-{key}=x"), ""));
        }
    }
    let many: Vec<_> = (0..256).map(|key| format!("more-{key}=x")).collect();
    for _ in 0..20 {
        examined_and_matched(&cache, &request(&many.join(","), ""));
    }
    assert_eq!(adaptive(&cache), []);
    wait_until(|| {
        examined_and_matched(&cache, &request("job=j3", ""));
        !adaptive(&cache).is_empty()
    })
    .await;
    assert_eq!(adaptive(&cache), [IndexedAttribute::Label("job".into())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_a_resource_releases_its_index_budget() {
    let memory = MemoryStore::new();
    write_labelled_pods(&*memory, 2_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let one_index_budget = IndexOptions {
        adaptive_bytes_max: 150_000,
        ..IndexOptions::default()
    };
    let manager = start_manager(&store, one_index_budget).await;
    for _ in 0..3 {
        let cache = pods(&manager);
        wait_until(|| {
            examined_and_matched(&cache, &request("job=j3", ""));
            !adaptive(&cache).is_empty()
        })
        .await;
        drop(cache);
        manager
            .remove(&support::prefix("pods"))
            .await
            .expect("removed");
        manager.add(support::resource("pods")).await.expect("added");
    }
}

/// Labels change while indexes are built; every list is compared with a full scan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_built_during_changes_is_correct() {
    for seed in 1..=4 {
        let memory = MemoryStore::new();
        write_labelled_pods(&*memory, 3_000).await;
        let store: Arc<dyn Store> = memory.clone();
        let manager = start_manager(&store, IndexOptions::default()).await;
        let cache = pods(&manager);
        let writer = tokio::spawn(async move {
            let random = &mut SeededRng::new(seed);
            for index in 0..3_000 {
                let number = random.below(3_000);
                let key = format!("pods/ns{}/o{number:05}", number % 5);
                if index % 7 == 0 {
                    delete(&*store, &key).await;
                } else {
                    let labels = format!("job=j{},k{}=v", index % 300, index % 3);
                    put(&*store, &key, &format!("{labels};n1,Running;x")).await;
                }
            }
        });
        let mut most = 0;
        while !writer.is_finished() || most == 0 {
            for labels in ["job=j3", "job in (j3,j4)", "k1=v,job=j5", "job,k2=v", "k0"] {
                let request = request(labels, "");
                let snapshot = cache.snapshot();
                let found = list(&cache, &snapshot, &request, None);
                let all = snapshot.range(None, None);
                let expected: Vec<_> = all
                    .filter(|entry| request.labels.matches(entry.labels()))
                    .map(|entry| format!("{}@{}", entry.key(), entry.revision()))
                    .collect();
                assert_eq!(found, expected, "{labels}");
            }
            most = most.max(adaptive(&cache).len());
        }
        writer.await.expect("a writer");
    }
}
