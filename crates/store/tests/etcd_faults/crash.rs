//! etcd killed and restarted under load: no acknowledged transaction is lost, none is applied twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rhumb_store::etcd::EtcdStore;
use rhumb_store::{
    ChangeSet, ChangeStream, Error, ExpectedRevision, KeyChange, Revision, Store, Transaction,
};

use tokio::task::JoinHandle;

use crate::{connect, eventually, get, next_set};
use rhumb_etcd_harness::EtcdServer;

const COUNTERS: usize = 3;
const WRITERS: usize = 8;
const ROUNDS: usize = 4;
const INCREMENTS_PER_ROUND: usize = 100;

/// Counters shared by the writers.
#[derive(Default)]
struct WriterStats {
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    unavailable: AtomicUsize,
    unknown: AtomicUsize,
    slowest_ms: AtomicU64,
}

impl WriterStats {
    fn record_latency(&self, started: Instant) {
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap();
        self.slowest_ms.fetch_max(took_ms, Ordering::SeqCst);
    }
}

type AcknowledgedIncrement = (String, u64, Revision);

fn counter(index: usize) -> String {
    format!("/counters/{}", index % COUNTERS)
}

fn value_of(bytes: &[u8]) -> u64 {
    std::str::from_utf8(bytes).unwrap().parse().unwrap()
}

/// Increments counters until it is stopped. Returns the acknowledged increments.
async fn increment(
    store: Arc<EtcdStore>,
    stats: Arc<WriterStats>,
    writer: usize,
) -> Vec<AcknowledgedIncrement> {
    let mut acknowledged: Vec<AcknowledgedIncrement> = Vec::new();
    for round in 0.. {
        if stats.stop.load(Ordering::SeqCst) {
            break;
        }
        let key = counter(writer + round);
        let started = Instant::now();
        let got = store.get(&key).await;
        stats.record_latency(started);
        let Ok(entry) = got else {
            continue;
        };
        let (value, expect) = match &entry {
            Some(entry) => (
                value_of(&entry.value) + 1,
                ExpectedRevision::At(entry.modified),
            ),
            None => (1, ExpectedRevision::Absent),
        };
        let next = Transaction::new().put(key.as_str(), value.to_string(), expect);
        let started = Instant::now();
        let committed = store.commit(next).await;
        stats.record_latency(started);
        match committed {
            Ok(revision) => {
                let last = acknowledged.last().map(|(_, _, last)| *last);
                assert!(last < Some(revision), "{revision} after {last:?}");
                acknowledged.push((key, value, revision));
                stats.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Err(Error::Conflict(_)) => {}
            Err(Error::Unavailable { .. }) => {
                stats.unavailable.fetch_add(1, Ordering::SeqCst);
            }
            Err(Error::OutcomeUnknown { .. }) => {
                stats.unknown.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

/// Writers that increment counters, and a change stream on the counters.
pub(crate) struct IncrementLoad {
    store: Arc<EtcdStore>,
    stream: Box<dyn ChangeStream>,
    stats: Arc<WriterStats>,
    writers: Vec<JoinHandle<Vec<AcknowledgedIncrement>>>,
}

impl IncrementLoad {
    pub(crate) async fn start(store: Arc<EtcdStore>) -> IncrementLoad {
        let stream = store.changes("/counters/", Revision::ZERO).await.unwrap();
        let stats = Arc::new(WriterStats::default());
        let writers = (0..WRITERS)
            .map(|writer| tokio::spawn(increment(store.clone(), stats.clone(), writer)))
            .collect();
        IncrementLoad {
            store,
            stream,
            stats,
            writers,
        }
    }

    /// Waits until more increments are acknowledged.
    pub(crate) async fn wait_for_progress(&self) {
        let before = self.stats.acknowledged.load(Ordering::SeqCst);
        eventually("the writers make progress", async || {
            self.stats.acknowledged.load(Ordering::SeqCst) >= before + INCREMENTS_PER_ROUND
        })
        .await;
    }

    /// The duration of the slowest call since the last call of this method.
    pub(crate) fn take_slowest(&self) -> Duration {
        Duration::from_millis(self.stats.slowest_ms.swap(0, Ordering::SeqCst))
    }

    /// Stops the writers and checks that every acknowledged increment was applied once, at the acknowledged revision.
    pub(crate) async fn finish(mut self) {
        self.stats.stop.store(true, Ordering::SeqCst);
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
        let unknown = self.stats.unknown.load(Ordering::SeqCst);
        println!(
            "{} acknowledged, {} unavailable, {unknown} unknown, {total} applied",
            acknowledged.len(),
            self.stats.unavailable.load(Ordering::SeqCst),
        );
        assert_eq!(unknown, 0, "every outcome was resolved");
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
    let load = IncrementLoad::start(store).await;
    for _ in 0..ROUNDS {
        load.wait_for_progress().await;
        server.kill();
        server.restart().await;
    }
    load.wait_for_progress().await;
    load.finish().await;
}

/// Checks that the stream has every increment once, in order, at the acknowledged revision.
fn check_stream(sets: &[ChangeSet], acknowledged: &BTreeSet<AcknowledgedIncrement>) {
    assert!(sets.is_sorted_by(|a, b| a.revision < b.revision));
    let mut counters = BTreeMap::new();
    for set in sets {
        let [KeyChange::Put { key, value, .. }] = &*set.changes else {
            panic!("not an increment: {set:?}");
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
async fn a_stopped_server_is_unavailable_immediately_with_known_outcomes() {
    let mut server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    server.kill();
    let refused = store.get("/a").await;
    assert!(
        matches!(refused, Err(Error::Unavailable { .. })),
        "{refused:?}"
    );
    let refused = store
        .commit(Transaction::new().put("/a", "1", ExpectedRevision::Any))
        .await;
    assert!(
        matches!(refused, Err(Error::Unavailable { .. })),
        "{refused:?}"
    );
    server.restart().await;
    assert_eq!(get(&store, "/a").await, None);
    store
        .commit(Transaction::new().put("/a", "1", ExpectedRevision::Any))
        .await
        .unwrap();
}
