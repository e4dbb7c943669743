//! etcd killed and restarted under load: nothing acknowledged is lost, nothing happens twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rhumb_store::etcd::Etcd;
use rhumb_store::{Change, ChangeSet, ChangeStream, Error, Expect, Revision, Store, Transaction};

use tokio::task::JoinHandle;

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
    slowest_ms: AtomicU64,
}

impl Told {
    fn took(&self, begun: Instant) {
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap();
        self.slowest_ms.fetch_max(took_ms, Ordering::SeqCst);
    }
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
        let begun = Instant::now();
        let got = store.get(&key).await;
        told.took(begun);
        let Ok(entry) = got else {
            continue;
        };
        let (value, expect) = match &entry {
            Some(entry) => (value_of(&entry.value) + 1, Expect::At(entry.modified)),
            None => (1, Expect::Absent),
        };
        let next = Transaction::new().put(key.as_str(), value.to_string(), expect);
        let begun = Instant::now();
        let committed = store.commit(next).await;
        told.took(begun);
        match committed {
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

/// Writers that increment counters, and a stream that follows them.
pub(crate) struct Load {
    store: Arc<Etcd>,
    stream: Box<dyn ChangeStream>,
    told: Arc<Told>,
    writers: Vec<JoinHandle<Vec<Increment>>>,
}

impl Load {
    pub(crate) async fn start(store: Arc<Etcd>) -> Load {
        let stream = store.changes("/counters/", Revision::ZERO).await.unwrap();
        let told = Arc::new(Told::default());
        let writers = (0..WRITERS)
            .map(|writer| tokio::spawn(increment(store.clone(), told.clone(), writer)))
            .collect();
        Load {
            store,
            stream,
            told,
            writers,
        }
    }

    /// Waits for more increments to be acknowledged.
    pub(crate) async fn gets_on(&self) {
        let before = self.told.acknowledged.load(Ordering::SeqCst);
        eventually("the writers get on", async || {
            self.told.acknowledged.load(Ordering::SeqCst) >= before + INCREMENTS_PER_ROUND
        })
        .await;
    }

    /// How long the slowest call has taken since this was last asked.
    pub(crate) fn slowest(&self) -> Duration {
        Duration::from_millis(self.told.slowest_ms.swap(0, Ordering::SeqCst))
    }

    /// What was told is what happened: every increment once, and at the revision that was acknowledged.
    pub(crate) async fn finish(mut self) {
        self.told.stop.store(true, Ordering::SeqCst);
        let mut acknowledged = BTreeSet::new();
        for writer in self.writers {
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
            let entry = get(&self.store, &counter(index)).await.unwrap();
            total += usize::try_from(value_of(&entry.value)).unwrap();
            last = last.max(entry.modified);
        }
        let unknown = self.told.unknown.load(Ordering::SeqCst);
        println!(
            "{} acknowledged, {} unavailable, {unknown} unknown, {total} happened",
            acknowledged.len(),
            self.told.unavailable.load(Ordering::SeqCst),
        );
        assert_eq!(unknown, 0, "every fate could be found out");
        assert_eq!(total, acknowledged.len());
        let mut sets = Vec::new();
        while sets
            .last()
            .is_none_or(|set: &ChangeSet| set.revision < last)
        {
            sets.push(next_set(&mut *self.stream).await);
        }
        check_stream(&sets, &acknowledged);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_survive_crashes_exactly_once() {
    let mut server = EtcdServer::start().await;
    let store = Arc::new(connect(&server.endpoint()).await);
    let load = Load::start(store).await;
    for _ in 0..ROUNDS {
        load.gets_on().await;
        server.kill();
        server.restart().await;
    }
    load.gets_on().await;
    load.finish().await;
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
