//! Lists find with indexes what they find without, and look at less.

mod support;

use std::sync::Arc;
use std::time::Duration;

use rhumb_cache::{
    Asked, Attribute, Cache, Hub, IndexOptions, Options, Origin, Scope, Snapshot, WatchRequest,
};
use rhumb_meta::{Clock, ManualClock, ObjectKey};
use rhumb_store::{Expect, Store, Transaction};
use rhumb_store_conformance::Random;
use support::memory::Memory;
use support::random::{Object, random_request};
use support::{PATIENCE, ROOT, current, delete, drain, key, pods, put, start};

const TRANSACTIONS: usize = 4_000;

fn off() -> IndexOptions {
    IndexOptions {
        enabled: false,
        ..IndexOptions::default()
    }
}

async fn hub(store: &Arc<dyn Store>, index: IndexOptions) -> Hub {
    let options = Options {
        index,
        ..Options::default()
    };
    start(store, options).await
}

fn list(
    cache: &Cache,
    snapshot: &Snapshot,
    request: &WatchRequest,
    after: Option<&ObjectKey>,
) -> Vec<String> {
    let namespace = match &request.scope {
        Scope::Namespace(namespace) => Some(&**namespace),
        Scope::All | Scope::Object { .. } => None,
    };
    let asked = Asked {
        namespace,
        after,
        labels: &request.labels,
        fields: &request.fields,
        limit: usize::MAX,
    };
    cache
        .select(snapshot, &asked)
        .map(|entry| format!("{}@{}", entry.key(), entry.revision()))
        .collect()
}

/// Writes one object or two, or deletes them.
async fn write(store: &dyn Store, random: &mut Random) {
    let mut transaction = Transaction::new();
    for namespace in 0..=random.below(2) {
        let path = format!("{ROOT}pods/ns{namespace}/o{}", random.below(12));
        transaction = match random.below(5) {
            0 => transaction.delete(path, Expect::Any),
            _ => transaction.put(path, Object::random(random).stored(), Expect::Any),
        };
    }
    store.commit(transaction).await.expect("a commit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_watches_are_the_same_with_indexes_and_without() {
    let random = &mut Random::new(7);
    let memory = Memory::new();
    let store: Arc<dyn Store> = memory.clone();
    let (with, without) = (
        hub(&store, IndexOptions::default()).await,
        hub(&store, off()).await,
    );
    let (indexed, plain) = (pods(&with), pods(&without));
    assert_eq!(
        (indexed.index_stats().len(), plain.index_stats().len()),
        (2, 0)
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
            let ask = |cache: &Cache, snapshot: &Snapshot| {
                list(cache, snapshot, &request, after.as_ref())
            };
            let answer = ask(&indexed, &indexed.snapshot());
            assert_eq!(answer, ask(&plain, &plain.snapshot()), "{request:?}");
            let at = revision.get() - random.below(60).min(index) as u64;
            let past = |cache: &Cache| cache.snapshot_at(rhumb_meta::Revision::new(at));
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
    assert_eq!(a.list_picked, b.list_picked);
    assert!(a.list_looked_at < b.list_looked_at, "{a:?} {b:?}");
}

/// So many objects, of which each hundred share an `app` and each ten a `job`; all are of one `area`.
async fn fill(store: &dyn Store, objects: usize) {
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
        ..WatchRequest::everything(rhumb_cache::Start::Latest)
    }
}

/// What a list looks at, and what it picks.
fn cost(cache: &Cache, request: &WatchRequest) -> (u64, usize) {
    let before = cache.stats().list_looked_at;
    let picked = list(cache, &cache.snapshot(), request, None).len();
    (cache.stats().list_looked_at - before, picked)
}

#[tokio::test]
async fn a_list_looks_at_the_shortest_way() {
    let memory = Memory::new();
    fill(&*memory, 2_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let hub = hub(&store, IndexOptions::default()).await;
    let cache = pods(&hub);
    let check = |labels: &str, fields: &str, looked_at: u64, picked: usize| {
        let request = request(labels, fields);
        assert_eq!(
            cost(&cache, &request),
            (looked_at, picked),
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
async fn what_two_indexes_share_is_found_without_looking_at_the_rest() {
    let memory = Memory::new();
    // One of twenty pods is of the application; those of the node are all in a few namespaces.
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
    let hub = hub(&store, IndexOptions::default()).await;
    let (looked_at, picked) = cost(&pods(&hub), &request("app=web", "node=n1"));
    assert_eq!(picked, 50);
    assert!(looked_at < 200, "{looked_at}");
}

/// Repeats until it is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(tokio::time::Instant::now() < deadline, "it never came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn adaptive(cache: &Cache) -> Vec<Attribute> {
    let all = cache.index_stats().into_iter();
    let adaptive = all.filter(|stats| stats.origin == Origin::Adaptive);
    adaptive.map(|stats| stats.attribute).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frequent_lists_get_an_index_of_their_own() {
    let memory = Memory::new();
    fill(&*memory, 5_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let with = hub(&store, IndexOptions::default()).await;
    let cache = pods(&with);
    // The label that all objects share comes first, and is no help.
    let asked = request("area=t,job=j3", "");
    assert_eq!(cost(&cache, &asked), (5_000, 10));
    assert_eq!(adaptive(&cache), []);
    until(|| {
        cost(&cache, &asked);
        !adaptive(&cache).is_empty()
    })
    .await;
    assert_eq!(adaptive(&cache), [Attribute::Label("job".into())]);
    assert_eq!(cost(&cache, &asked), (10, 10));
    // It follows what changes.
    for job in ["j3", "j4", "j3"] {
        put(
            &*store,
            "pods/ns0/new",
            &format!("area=t,job={job};n1,Running;x"),
        )
        .await;
        current(&with).await;
        let picked = if job == "j3" { 11 } else { 10 };
        assert_eq!(cost(&cache, &asked).1, picked, "{job}");
    }
    // And is there again when everything had to be read anew.
    memory.break_with(rhumb_store::Error::Compacted {
        requested: rhumb_meta::Revision::new(1),
        oldest: rhumb_meta::Revision::new(2),
    });
    until(|| !with.health().is_ready()).await;
    memory.mend();
    until(|| with.health().is_ready()).await;
    put(&*store, "pods/ns0/newer", "area=t,job=j3;n1,Running;x").await;
    current(&with).await;
    assert_eq!(cost(&cache, &asked), (12, 12));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_no_room_is_left_for_is_not_built() {
    let memory = Memory::new();
    fill(&*memory, 2_000).await;
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
        let hub = hub(&store, index).await;
        let cache = pods(&hub);
        for _ in 0..100 {
            cost(&cache, &request("job=j3", ""));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(adaptive(&cache), []);
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_that_lists_no_longer_use_is_dropped() {
    let memory = Memory::new();
    fill(&*memory, 2_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let clock = Arc::new(ManualClock::default());
    let options = Options {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..Options::default()
    };
    let hub = start(&store, options).await;
    let cache = pods(&hub);
    let asked = request("job=j3", "");
    for _ in 0..100 {
        cost(&cache, &asked);
    }
    until(|| !adaptive(&cache).is_empty()).await;
    assert_eq!(cost(&cache, &asked), (10, 10));
    // Time enough for the reader to look after its caches.
    let a_while = || tokio::time::sleep(Duration::from_secs(60));
    clock.advance(Duration::from_secs(590));
    a_while().await;
    assert_eq!(adaptive(&cache).len(), 1);
    clock.advance(Duration::from_secs(20));
    a_while().await;
    assert_eq!(adaptive(&cache), []);
    let counted = cache.lists_by_index();
    let job = &counted[&Attribute::Label("job".into())];
    assert!(job.lists > 0 && job.looked_at == 10 * job.lists, "{job:?}");
    assert_eq!(cost(&cache, &asked), (2_000, 10));
    // It may come again, and there is room for it again.
    for _ in 0..100 {
        cost(&cache, &asked);
    }
    until(|| !adaptive(&cache).is_empty()).await;
}

/// What counts is what lists ask for, not what they could.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rare_value_of_a_common_label_gets_an_index() {
    let memory = Memory::new();
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
    let hub = hub(&store, IndexOptions::default()).await;
    let cache = pods(&hub);
    let asked = request("role=driver", "");
    until(|| {
        cost(&cache, &asked);
        !adaptive(&cache).is_empty()
    })
    .await;
    assert_eq!(cost(&cache, &asked), (20, 20));
}

/// Lists that look for nothing sensible, as a client may that means harm, get no indexes and keep nobody from theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_gets_no_index_and_takes_none_away() {
    let memory = Memory::new();
    fill(&*memory, 1_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let hub = hub(&store, IndexOptions::default()).await;
    let cache = pods(&hub);
    for key in 0..300 {
        for _ in 0..20 {
            cost(&cache, &request(&format!("junk-{key}=x"), ""));
        }
    }
    let many: Vec<_> = (0..256).map(|key| format!("more-{key}=x")).collect();
    for _ in 0..20 {
        cost(&cache, &request(&many.join(","), ""));
    }
    assert_eq!(adaptive(&cache), []);
    until(|| {
        cost(&cache, &request("job=j3", ""));
        !adaptive(&cache).is_empty()
    })
    .await;
    assert_eq!(adaptive(&cache), [Attribute::Label("job".into())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_index_took_is_free_again_when_its_resource_goes() {
    let memory = Memory::new();
    fill(&*memory, 2_000).await;
    let store: Arc<dyn Store> = memory.clone();
    let room_for_one = IndexOptions {
        adaptive_bytes_max: 150_000,
        ..IndexOptions::default()
    };
    let hub = hub(&store, room_for_one).await;
    for _ in 0..3 {
        let cache = pods(&hub);
        until(|| {
            cost(&cache, &request("job=j3", ""));
            !adaptive(&cache).is_empty()
        })
        .await;
        drop(cache);
        hub.remove(&support::prefix("pods")).await.expect("removed");
        hub.add(support::resource("pods")).await.expect("added");
    }
}

/// Labels change all the time while indexes are built; every list is held against a look at all objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_built_under_changes_is_right() {
    for seed in 1..=4 {
        let memory = Memory::new();
        fill(&*memory, 3_000).await;
        let store: Arc<dyn Store> = memory.clone();
        let hub = hub(&store, IndexOptions::default()).await;
        let cache = pods(&hub);
        let writer = tokio::spawn(async move {
            let random = &mut Random::new(seed);
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
