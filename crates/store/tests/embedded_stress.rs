//! Writers, readers that list and follow, compactions and backups all at once, held against the true history.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rhumb_store::embedded::{Embedded, Options, Retention};
use rhumb_store::{
    Change, ChangeEvent, ChangeSet, ChangeStream, Entry, Error, Expect, Operation, Range, Revision,
    Store, Transaction,
};
use rhumb_store_conformance::Random;

const SECONDS: u64 = 6;
const WRITERS: u64 = 12;
const READERS: u64 = 4;
const KEYS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(20);

/// Key, value and revision of every entry.
type State = BTreeMap<String, (Bytes, Revision)>;

struct Shared {
    store: Embedded,
    stop: AtomicBool,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_ever_sees_a_wrong_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    // Little of everything, so that streams lag, segments are packed, and history goes.
    let options = Options {
        retention: Retention {
            revisions_max: 3000,
            age_max: Duration::from_secs(1),
        },
        recent_changes_bytes: 20_000,
        segment_bytes: 64 * 1024,
        ..Options::default()
    };
    let store = Embedded::open(&data, options).await.expect("a new store");
    let shared = Arc::new(Shared {
        store,
        stop: AtomicBool::new(false),
    });
    let writers: Vec<_> = (1..=WRITERS)
        .map(|seed| tokio::spawn(write(Arc::clone(&shared), seed)))
        .collect();
    let readers: Vec<_> = (1..=READERS)
        .map(|seed| tokio::spawn(follow(Arc::clone(&shared), seed)))
        .collect();
    let compactor = tokio::spawn(compact(Arc::clone(&shared)));
    let backups = tokio::spawn(back_up(Arc::clone(&shared), directory.path().to_owned()));
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    shared.stop.store(true, Ordering::Relaxed);

    let mut history = BTreeMap::new();
    for writer in writers {
        for (revision, transaction) in writer.await.expect("a writer") {
            assert!(
                history.insert(revision, transaction).is_none(),
                "a revision was used twice"
            );
        }
    }
    let mut compared = 0;
    for reader in readers {
        compared += reader.await.expect("a reader");
    }
    compactor.await.expect("the compactor");
    backups.await.expect("the backups");
    assert!(compared > 0, "no reader came to compare anything");

    let expected = replay(&history);
    assert_eq!(state(&shared.store).await, expected);
    Arc::into_inner(shared)
        .expect("all have ended")
        .store
        .close()
        .await;
    let store = Embedded::open(&data, Options::default())
        .await
        .expect("the store");
    assert_eq!(state(&store).await, expected, "after opening it again");
}

async fn write(shared: Arc<Shared>, seed: u64) -> Vec<(Revision, Transaction)> {
    let mut random = Random::new(seed);
    let mut acknowledged = Vec::new();
    while shared.goes_on() {
        let first = random.below(KEYS);
        let second = (first + 1 + random.below(KEYS - 1)) % KEYS;
        let (first, second) = (format!("/k/{first:02}"), format!("/k/{second:02}"));
        let value = format!("{seed}:{}", "x".repeat(random.below(300)));
        let transaction = match random.below(5) {
            0 => Transaction::new()
                .delete(first, Expect::Any)
                .put(second, value, Expect::Any),
            1 => Transaction::new().put(first, value, Expect::Absent),
            _ => Transaction::new()
                .put(first, value.clone(), Expect::Any)
                .put(second, value, Expect::Any),
        };
        match shared.store.commit(transaction.clone()).await {
            Ok(revision) => acknowledged.push((revision, transaction)),
            Err(Error::Conflict(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

/// Lists, follows for a while, and compares with what is stored at the revision it has come to.
async fn follow(shared: Arc<Shared>, seed: u64) -> usize {
    let mut random = Random::new(100 + seed);
    let mut compared = 0;
    while shared.goes_on() {
        let page = shared
            .store
            .range(Range::prefix("/k/"))
            .await
            .expect("a range");
        let admitted = shared.store.revision().await.expect("the revision");
        assert!(
            admitted >= page.revision,
            "a range of {} at {admitted}",
            page.revision
        );
        let mut followed = of_entries(page.entries);
        let mut reached = page.revision;
        let Ok(mut stream) = shared.store.changes("/k/", reached).await else {
            continue;
        };
        if random.below(3) == 0 {
            tokio::time::sleep(Duration::from_millis(random.below(800) as u64)).await;
        }
        for _ in 0..random.below(2000) {
            match next(&shared, &mut *stream).await {
                Some(Ok(ChangeEvent::Changes(set))) => {
                    assert_eq!(
                        set.revision,
                        reached.next(),
                        "every revision changes something"
                    );
                    reached = set.revision;
                    take(&mut followed, &set);
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

/// The next event, which must come while there are writers; `None` once they have stopped.
async fn next(
    shared: &Shared,
    stream: &mut dyn ChangeStream,
) -> Option<rhumb_store::Result<ChangeEvent>> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match tokio::time::timeout(Duration::from_millis(100), stream.next()).await {
            Ok(event) => return Some(event),
            Err(_) if shared.goes_on() => {}
            Err(_) => return None,
        }
    }
    panic!("the stream stands still");
}

fn take(state: &mut State, set: &ChangeSet) {
    for change in set.changes.iter() {
        match change {
            Change::Put {
                key,
                value,
                created,
            } => {
                let before = state.insert(key.to_string(), (value.clone(), set.revision));
                assert_eq!(before.is_none(), *created == set.revision);
            }
            Change::Delete { key } => assert!(state.remove(&**key).is_some()),
        }
    }
}

/// The state at a revision, unless that has been compacted.
async fn read_in_pages(store: &Embedded, revision: Revision) -> Option<State> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let last = entries.last().map(|entry| entry.key.clone());
        let mut range = Range::prefix("/k/").at(revision).limit(7);
        range.after = last.as_deref();
        match store.range(range).await {
            Ok(page) => {
                entries.extend(page.entries);
                if !page.more {
                    return Some(of_entries(entries));
                }
            }
            Err(Error::Compacted { .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn compact(shared: Arc<Shared>) {
    let mut random = Random::new(5);
    while shared.goes_on() {
        let current = shared.store.revision().await.expect("the revision");
        let begin = current.get().saturating_sub(random.below(1500) as u64);
        shared
            .store
            .compact(Revision::new(begin))
            .await
            .expect("a compaction");
        tokio::time::sleep(Duration::from_millis(random.below(30) as u64)).await;
    }
}

async fn back_up(shared: Arc<Shared>, directory: impl AsRef<Path>) {
    for number in 0.. {
        let file = directory.as_ref().join(format!("backup-{number}"));
        shared.store.backup(&file).await.expect("a backup");
        tokio::time::sleep(Duration::from_millis(300)).await;
        if !shared.goes_on() {
            break;
        }
    }
}

async fn state(store: &Embedded) -> State {
    of_entries(
        store
            .range(Range::prefix(""))
            .await
            .expect("a range")
            .entries,
    )
}

fn of_entries(entries: Vec<Entry>) -> State {
    let pair = |entry: Entry| (entry.key.to_string(), (entry.value, entry.modified));
    entries.into_iter().map(pair).collect()
}

fn replay(history: &BTreeMap<Revision, Transaction>) -> State {
    let mut state = State::new();
    for (revision, transaction) in history {
        for operation in transaction.operations() {
            match operation {
                Operation::Put { key, value, .. } => {
                    state.insert(key.to_string(), (value.clone(), *revision));
                }
                Operation::Delete { key, .. } => {
                    state.remove(&**key);
                }
                Operation::Check { .. } => {}
            }
        }
    }
    state
}
