//! Concurrent writers, list-and-watch readers, compactions and backups, compared with the acknowledged history.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore, RetentionPolicy};
use rhumb_store::{
    ChangeSet, ChangeStream, ChangeStreamEvent, Error, ExpectedRevision, KeyChange, RangeRequest,
    Revision, Store, StoreEntry, Transaction, TransactionOp,
};
use rhumb_store_conformance::SeededRng;

const SECONDS: u64 = 6;
const WRITERS: u64 = 12;
const READERS: u64 = 4;
const KEYS: usize = 40;
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

/// Value and mod revision of every entry, by key.
type StoreState = BTreeMap<String, (Bytes, Revision)>;

struct StressContext {
    store: EmbeddedStore,
    stop: AtomicBool,
}

impl StressContext {
    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_never_see_an_inconsistent_state() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let data = directory.path().join("data");
    // Small limits, so that streams fall behind, segments are packed, and history is compacted.
    let options = EmbeddedOptions {
        retention: RetentionPolicy {
            revisions_max: 3000,
            age_max: Duration::from_secs(1),
        },
        recent_changes_bytes: 20_000,
        segment_bytes: 64 * 1024,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(&data, options)
        .await
        .expect("create store");
    let shared = Arc::new(StressContext {
        store,
        stop: AtomicBool::new(false),
    });
    let writers: Vec<_> = (1..=WRITERS)
        .map(|seed| tokio::spawn(write(Arc::clone(&shared), seed)))
        .collect();
    let readers: Vec<_> = (1..=READERS)
        .map(|seed| tokio::spawn(list_and_follow(Arc::clone(&shared), seed)))
        .collect();
    let compactor = tokio::spawn(compact(Arc::clone(&shared)));
    let backups = tokio::spawn(back_up(Arc::clone(&shared), directory.path().to_owned()));
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    shared.stop.store(true, Ordering::Relaxed);

    let mut history = BTreeMap::new();
    for writer in writers {
        for (revision, transaction) in writer.await.expect("writer task") {
            assert!(
                history.insert(revision, transaction).is_none(),
                "a revision was assigned twice"
            );
        }
    }
    let mut compared = 0;
    for reader in readers {
        compared += reader.await.expect("reader task");
    }
    compactor.await.expect("compactor task");
    backups.await.expect("backup task");
    assert!(compared > 0, "no reader compared a state");

    let expected = replay(&history);
    assert_eq!(state(&shared.store).await, expected);
    Arc::into_inner(shared)
        .expect("all tasks have ended")
        .store
        .close()
        .await;
    let store = EmbeddedStore::open(&data, EmbeddedOptions::default())
        .await
        .expect("open store");
    assert_eq!(state(&store).await, expected, "after reopening the store");
}

async fn write(shared: Arc<StressContext>, seed: u64) -> Vec<(Revision, Transaction)> {
    let mut random = SeededRng::new(seed);
    let mut acknowledged = Vec::new();
    while shared.is_running() {
        let first = random.below(KEYS);
        let second = (first + 1 + random.below(KEYS - 1)) % KEYS;
        let (first, second) = (format!("/k/{first:02}"), format!("/k/{second:02}"));
        let value = format!("{seed}:{}", "x".repeat(random.below(300)));
        let transaction = match random.below(5) {
            0 => Transaction::new().delete(first, ExpectedRevision::Any).put(
                second,
                value,
                ExpectedRevision::Any,
            ),
            1 => Transaction::new().put(first, value, ExpectedRevision::Absent),
            _ => Transaction::new()
                .put(first, value.clone(), ExpectedRevision::Any)
                .put(second, value, ExpectedRevision::Any),
        };
        match shared.store.commit(transaction.clone()).await {
            Ok(revision) => acknowledged.push((revision, transaction)),
            Err(Error::Conflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

/// Lists, watches for a while, and compares the result with the store at the same revision. Returns the number of
/// comparisons.
async fn list_and_follow(shared: Arc<StressContext>, seed: u64) -> usize {
    let mut random = SeededRng::new(100 + seed);
    let mut compared = 0;
    while shared.is_running() {
        let page = shared
            .store
            .range(RangeRequest::prefix("/k/"))
            .await
            .expect("range read");
        let admitted = shared.store.revision().await.expect("read revision");
        assert!(
            admitted >= page.revision,
            "a range of {} at {admitted}",
            page.revision
        );
        let mut followed = state_of_entries(page.entries);
        let mut reached = page.revision;
        let Ok(mut stream) = shared.store.changes("/k/", reached).await else {
            continue;
        };
        if random.below(3) == 0 {
            tokio::time::sleep(Duration::from_millis(random.below(800) as u64)).await;
        }
        for _ in 0..random.below(2000) {
            match next(&shared, &mut *stream).await {
                Some(Ok(ChangeStreamEvent::Changes(set))) => {
                    assert_eq!(set.revision, reached.next(), "revisions are consecutive");
                    reached = set.revision;
                    apply_changes(&mut followed, &set);
                }
                Some(Err(Error::Compacted { .. })) | None => break,
                Some(other) => panic!("{other:?}"),
            }
        }
        if let Some(stored) = read_in_pages(&shared.store, reached).await {
            assert_eq!(stored, followed, "at {reached}");
            compared += 1;
        }
    }
    compared
}

/// Waits for the next event, which must arrive while writers run; `None` once they have stopped.
async fn next(
    shared: &StressContext,
    stream: &mut dyn ChangeStream,
) -> Option<rhumb_store::Result<ChangeStreamEvent>> {
    let started = Instant::now();
    while started.elapsed() < EVENT_TIMEOUT {
        match tokio::time::timeout(Duration::from_millis(100), stream.next()).await {
            Ok(event) => return Some(event),
            Err(_) if shared.is_running() => {}
            Err(_) => return None,
        }
    }
    panic!("no change event within the timeout");
}

fn apply_changes(state: &mut StoreState, set: &ChangeSet) {
    for change in set.changes.iter() {
        match change {
            KeyChange::Put {
                key,
                value,
                created,
            } => {
                let before = state.insert(key.to_string(), (value.clone(), set.revision));
                assert_eq!(before.is_none(), *created == set.revision);
            }
            KeyChange::Delete { key } => assert!(state.remove(&**key).is_some()),
        }
    }
}

/// Reads the state at a revision in pages; `None` if the revision is compacted.
async fn read_in_pages(store: &EmbeddedStore, revision: Revision) -> Option<StoreState> {
    let mut entries: Vec<StoreEntry> = Vec::new();
    loop {
        let last = entries.last().map(|entry| entry.key.clone());
        let mut range = RangeRequest::prefix("/k/").at(revision).limit(7);
        range.after = last.as_deref();
        match store.range(range).await {
            Ok(page) => {
                entries.extend(page.entries);
                if !page.more {
                    return Some(state_of_entries(entries));
                }
            }
            Err(Error::Compacted { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn compact(shared: Arc<StressContext>) {
    let mut random = SeededRng::new(5);
    while shared.is_running() {
        let current = shared.store.revision().await.expect("read revision");
        let begin = current.get().saturating_sub(random.below(1500) as u64);
        shared
            .store
            .compact(Revision::new(begin))
            .await
            .expect("compact");
        tokio::time::sleep(Duration::from_millis(random.below(30) as u64)).await;
    }
}

async fn back_up(shared: Arc<StressContext>, directory: impl AsRef<Path>) {
    for number in 0.. {
        let file = directory.as_ref().join(format!("backup-{number}"));
        shared.store.backup(&file).await.expect("back up");
        tokio::time::sleep(Duration::from_millis(300)).await;
        if !shared.is_running() {
            break;
        }
    }
}

async fn state(store: &EmbeddedStore) -> StoreState {
    state_of_entries(
        store
            .range(RangeRequest::prefix(""))
            .await
            .expect("range read")
            .entries,
    )
}

fn state_of_entries(entries: Vec<StoreEntry>) -> StoreState {
    let pair = |entry: StoreEntry| (entry.key.to_string(), (entry.value, entry.modified));
    entries.into_iter().map(pair).collect()
}

fn replay(history: &BTreeMap<Revision, Transaction>) -> StoreState {
    let mut state = StoreState::new();
    for (revision, transaction) in history {
        for operation in transaction.operations() {
            match operation {
                TransactionOp::Put { key, value, .. } => {
                    state.insert(key.to_string(), (value.clone(), *revision));
                }
                TransactionOp::Delete { key, .. } => {
                    state.remove(&**key);
                }
                TransactionOp::Check { .. } => {}
            }
        }
    }
    state
}
