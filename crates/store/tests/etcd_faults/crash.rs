//! etcd killed and restarted under load: nothing acknowledged is lost, nothing happens twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rhumb_store::etcd::Etcd;
use rhumb_store::{Change, ChangeSet, Error, Expect, Revision, Store, Transaction};

use crate::etcd_server::EtcdServer;
use crate::{connect, eventually, get, next_set};

const COUNTERS: usize = 3;
const WRITERS: usize = 8;
const ROUNDS: usize = 4;
const INCREMENTS_PER_ROUND: usize = 100;

/// What the writers were told.
#[derive(Default)]
struct Told {
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    unavailable: AtomicUsize,
    unknown: AtomicUsize,
}

type Increment = (String, u64, Revision);

fn counter(index: usize) -> String {
    format!("/counters/{}", index % COUNTERS)
}

fn value_of(bytes: &[u8]) -> u64 {
    std::str::from_utf8(bytes).unwrap().parse().unwrap()
}

/// Increments counters until it is stopped. Gives the increments that were acknowledged.
async fn increment(store: Arc<Etcd>, told: Arc<Told>, writer: usize) -> Vec<Increment> {
    let mut acknowledged: Vec<Increment> = Vec::new();
    for turn in 0.. {
        if told.stop.load(Ordering::SeqCst) {
            break;
        }
        let key = counter(writer + turn);
        let Ok(entry) = store.get(&key).await else {
            continue;
        };
        let (value, expect) = match &entry {
            Some(entry) => (value_of(&entry.value) + 1, Expect::At(entry.modified)),
            None => (1, Expect::Absent),
        };
        let next = Transaction::new().put(key.as_str(), value.to_string(), expect);
        match store.commit(next).await {
            Ok(revision) => {
                let last = acknowledged.last().map(|(_, _, last)| *last);
                assert!(last < Some(revision), "{revision} after {last:?}");
                acknowledged.push((key, value, revision));
                told.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Err(Error::Conflict(_)) => {}
            Err(Error::Unavailable { .. }) => {
                told.unavailable.fetch_add(1, Ordering::SeqCst);
            }
            Err(Error::OutcomeUnknown { .. }) => {
                told.unknown.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_survive_crashes_exactly_once() {
    let mut server = EtcdServer::start().await;
    let store = Arc::new(connect(&server.endpoint()).await);
    let mut stream = store.changes("/counters/", Revision::ZERO).await.unwrap();
    let told = Arc::new(Told::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(increment(store.clone(), told.clone(), writer)))
        .collect();

    for round in 1..=ROUNDS {
        eventually("the writers get on", async || {
            told.acknowledged.load(Ordering::SeqCst) >= round * INCREMENTS_PER_ROUND
        })
        .await;
        server.kill();
        server.restart().await;
    }
    eventually("the writers get on after the last crash", async || {
        told.acknowledged.load(Ordering::SeqCst) >= (ROUNDS + 1) * INCREMENTS_PER_ROUND
    })
    .await;
    told.stop.store(true, Ordering::SeqCst);
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        for increment in writer.await.unwrap() {
            assert!(
                acknowledged.insert(increment),
                "an increment was acknowledged twice"
            );
        }
    }

    let mut total = 0;
    let mut last = Revision::ZERO;
    for index in 0..COUNTERS {
        let entry = get(&store, &counter(index)).await.unwrap();
        total += usize::try_from(value_of(&entry.value)).unwrap();
        last = last.max(entry.modified);
    }
    let unknown = told.unknown.load(Ordering::SeqCst);
    println!(
        "{} acknowledged, {} unavailable, {unknown} unknown, {total} happened",
        acknowledged.len(),
        told.unavailable.load(Ordering::SeqCst),
    );
    assert_eq!(unknown, 0, "every fate could be found out");
    assert_eq!(total, acknowledged.len());

    let mut sets = Vec::new();
    while sets
        .last()
        .is_none_or(|set: &ChangeSet| set.revision < last)
    {
        sets.push(next_set(&mut *stream).await);
    }
    check_stream(&sets, &acknowledged);
}

/// Every increment is there once, in order, at the revision that was acknowledged.
fn check_stream(sets: &[ChangeSet], acknowledged: &BTreeSet<Increment>) {
    assert!(sets.is_sorted_by(|a, b| a.revision < b.revision));
    let mut counters = BTreeMap::new();
    for set in sets {
        let [Change::Put { key, value, .. }] = &*set.changes else {
            panic!("{set:?} is no increment");
        };
        let counter: &mut u64 = counters.entry(key.to_string()).or_default();
        *counter += 1;
        assert_eq!(value_of(value), *counter, "{key} at {}", set.revision);
        let increment = (key.to_string(), *counter, set.revision);
        assert!(
            acknowledged.contains(&increment),
            "{increment:?} was not acknowledged"
        );
    }
    assert_eq!(sets.len(), acknowledged.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_unavailable_at_once_and_nothing_is_in_doubt() {
    let mut server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    server.kill();
    let refused = store.get("/a").await;
    assert!(
        matches!(refused, Err(Error::Unavailable { .. })),
        "{refused:?}"
    );
    let refused = store
        .commit(Transaction::new().put("/a", "1", Expect::Any))
        .await;
    assert!(
        matches!(refused, Err(Error::Unavailable { .. })),
        "{refused:?}"
    );
    server.restart().await;
    assert_eq!(get(&store, "/a").await, None);
    store
        .commit(Transaction::new().put("/a", "1", Expect::Any))
        .await
        .unwrap();
}
