//! Long-running crash test of the embedded store over many generations.
//!
//! A generation runs random transactions and compactions on small segments and a faulty disk, and ends with a crash
//! at a random point. The next generation opens the disk as that crash left it, and compares everything readable with
//! a model: entries, revisions, the state at every revision that is not compacted, and the change stream.

mod simulated_disk;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore, RetentionPolicy};
use rhumb_store::{
    ChangeStreamEvent, Error, ExpectedRevision, KeyChange, RangeRequest, Revision, Store,
    Transaction,
};
use rhumb_store_conformance::SeededRng;
use simulated_disk::{DiskImage, SimulatedDisk, image_after_crash};

/// Entries of the model: value, create revision and mod revision by key.
type ModelState = BTreeMap<String, (String, u64, u64)>;

/// An attempted commit, and the positions in the disk trace between which it ran.
struct RecordedCommit {
    start: usize,
    end: usize,
    revision: u64,
    state: ModelState,
    outcome: CommitOutcome,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommitOutcome {
    Committed,
    NotCommitted,
    Unknown,
}

struct StoreModel {
    /// The known state at each revision.
    states: BTreeMap<u64, ModelState>,
    revision: u64,
    compacted: u64,
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        before(info);
    }));
}

fn options(segment_bytes: u64, revisions_max: u64) -> EmbeddedOptions {
    EmbeddedOptions {
        segment_bytes,
        retention: RetentionPolicy {
            revisions_max,
            ..RetentionPolicy::default()
        },
        recent_changes_bytes: 2000,
        ..EmbeddedOptions::default()
    }
}

async fn state_at(
    store: &EmbeddedStore,
    revision: Option<u64>,
) -> Result<(ModelState, u64), Error> {
    let mut range = RangeRequest::prefix("/");
    range.at = revision.map(Revision::new);
    let page = store.range(range).await?;
    let entry = |entry: rhumb_store::StoreEntry| {
        let value = String::from_utf8_lossy(&entry.value).into_owned();
        let (created, modified) = (entry.created.get(), entry.modified.get());
        (entry.key.to_string(), (value, created, modified))
    };
    let state = page.entries.into_iter().map(entry).collect();
    Ok((state, page.revision.get()))
}

/// The state after a transaction, or `None` if it changes nothing.
fn apply_changes(
    state: &ModelState,
    changes: &[(String, Option<String>)],
    revision: u64,
) -> Option<ModelState> {
    let mut next = state.clone();
    let mut any = false;
    for (key, value) in changes {
        match value {
            Some(value) => {
                let created = state.get(key).map_or(revision, |(_, created, _)| *created);
                next.insert(key.clone(), (value.clone(), created, revision));
                any = true;
            }
            None => any |= next.remove(key).is_some(),
        }
    }
    any.then_some(next)
}

fn random_changes(random: &mut SeededRng, step: usize) -> Vec<(String, Option<String>)> {
    let mut changes = BTreeMap::new();
    for _ in 0..1 + random.below(3) {
        let key = match random.below(10) {
            // Long-lived keys among short-lived ones.
            0 => format!("/long/{}", random.below(40)),
            1..=5 => format!("/short/{}", random.below(6)),
            _ => format!("/some/{}", random.below(25)),
        };
        let delete = random.below(100) < if key.starts_with("/short") { 50 } else { 25 };
        let size = match random.below(6) {
            0 => 0,
            1 => 600 + random.below(1500),
            _ => random.below(300),
        };
        let value = format!("{step}:{}", "v".repeat(size));
        changes.insert(key, (!delete).then_some(value));
    }
    changes.into_iter().collect()
}

/// Compares everything readable with the model; returns the compaction revision.
async fn check_against_model(store: &EmbeddedStore, model: &StoreModel, what: &str) -> u64 {
    let oldest = match store.changes("/", Revision::new(0)).await {
        Err(Error::Compacted { oldest, .. }) => oldest.get(),
        Ok(_) => 0,
        Err(error) => panic!("{what}: {error}"),
    };
    assert!(oldest >= model.compacted, "{what}: a compaction was lost");
    for revision in oldest.max(1)..=model.revision {
        let (found, _) = state_at(store, Some(revision))
            .await
            .unwrap_or_else(|error| panic!("{what}: at {revision}: {error}"));
        let expected = &model.states[&revision];
        if found != *expected {
            let wrong: Vec<_> = found
                .iter()
                .filter(|(key, value)| expected.get(*key) != Some(value))
                .map(|(key, (_, created, modified))| {
                    (
                        key,
                        created,
                        modified,
                        expected.get(key).map(|it| (it.1, it.2)),
                    )
                })
                .collect();
            let missing: Vec<_> = expected
                .keys()
                .filter(|key| !found.contains_key(*key))
                .collect();
            panic!(
                "{what}: the state at {revision} of {oldest}..={}: wrong {wrong:?}, missing {missing:?}",
                model.revision
            );
        }
    }
    let mut stream = store
        .changes("/", Revision::new(oldest.max(1)))
        .await
        .expect("open stream");
    let mut state = model.states[&oldest.max(1)].clone();
    for revision in oldest.max(1) + 1..=model.revision {
        let event = tokio::time::timeout(Duration::from_secs(20), stream.next()).await;
        let set = match event.expect("change event").expect("change event") {
            ChangeStreamEvent::Changes(set) => set,
            ChangeStreamEvent::Progress(_) => panic!("unexpected progress event"),
        };
        assert_eq!(set.revision.get(), revision, "{what}: the stream");
        for change in set.changes.iter() {
            match change {
                KeyChange::Put {
                    key,
                    value,
                    created,
                } => {
                    let value = String::from_utf8_lossy(value).into_owned();
                    state.insert(key.to_string(), (value, created.get(), revision));
                }
                KeyChange::Delete { key } => {
                    assert!(
                        state.remove(&**key).is_some(),
                        "{what}: deleted key {key} did not exist"
                    );
                }
            }
        }
        assert_eq!(
            state, model.states[&revision],
            "{what}: the stream at {revision}"
        );
    }
    oldest
}

/// Waits for all futures, polling them first in their order.
async fn join_in_order<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut responses: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, answer) in waiting.iter_mut().zip(&mut responses) {
            if answer.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
        if responses.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    responses.into_iter().flatten().collect()
}

/// Runs one generation; returns the disk image after its crash or clean shutdown.
async fn run_generation(
    image: DiskImage,
    model: &mut StoreModel,
    random: &mut SeededRng,
    what: &str,
) -> DiskImage {
    let disk = SimulatedDisk::with_image(image.clone());
    let segment_bytes = [2048, 4096, 8192, 32768][random.below(4)];
    let revisions_max = [20, 60, 100_000][random.below(3)];
    let store = EmbeddedStore::open_on(disk.clone(), options(segment_bytes, revisions_max))
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    model.compacted = check_against_model(&store, model, what).await;
    let mut attempts: Vec<RecordedCommit> = Vec::new();
    let mut compactions = vec![(disk.operation_count(), model.compacted)];
    let (mut revision, mut state) = (model.revision, model.states[&model.revision].clone());
    let steps = 5 + random.below(80);
    let faults = random.below(3) == 0;
    for step in 0..steps {
        if faults {
            match random.below(25) {
                0 => disk.limit_free_pages(Some(random.below(8))),
                1..=4 => disk.limit_free_pages(None),
                5 => {
                    let first = random.below(4);
                    disk.fail_syncs_with_enospc(first..first + 1 + random.below(3));
                }
                6 if random.below(6) == 0 => disk.fail_syncs(true),
                7 => {
                    disk.limit_free_pages(None);
                    tokio::time::sleep(Duration::from_millis(110)).await;
                }
                _ => {}
            }
        }
        let start = disk.operation_count();
        if random.below(15) == 0 {
            let to = revision.saturating_sub(random.below(12) as u64);
            if store.compact(Revision::new(to)).await.is_ok() {
                compactions.push((disk.operation_count(), to));
            }
            continue;
        }
        if random.below(12) == 0 {
            // Give the cleaner time to run.
            tokio::time::sleep(Duration::from_millis(random.below(4) as u64)).await;
        }
        // Concurrent commits share a write. Not with faults: if one fails, the model of the next ones would be wrong.
        let together = if faults { 1 } else { 1 + random.below(6) };
        let (mut commits, mut tried) = (Vec::new(), Vec::new());
        let (mut drafted_revision, mut drafted) = (revision, state.clone());
        for _ in 0..together {
            let changes = random_changes(random, step);
            let Some(next) = apply_changes(&drafted, &changes, drafted_revision + 1) else {
                continue;
            };
            (drafted_revision, drafted) = (drafted_revision + 1, next);
            tried.push((drafted_revision, drafted.clone()));
            let mut transaction = Transaction::new();
            for (key, value) in changes {
                transaction = match value {
                    Some(value) => transaction.put(key, value, ExpectedRevision::Any),
                    None => transaction.delete(key, ExpectedRevision::Any),
                };
            }
            commits.push(store.commit(transaction));
        }
        let responses = join_in_order(commits).await;
        let end = disk.operation_count();
        for ((revision_tried, next), answer) in tried.into_iter().zip(responses) {
            let outcome = match answer {
                Ok(got) => {
                    assert_eq!(
                        got.get(),
                        revision_tried,
                        "{what}: revisions are consecutive"
                    );
                    CommitOutcome::Committed
                }
                Err(error) if error.changed_nothing() => CommitOutcome::NotCommitted,
                Err(_) => CommitOutcome::Unknown,
            };
            attempts.push(RecordedCommit {
                start,
                end,
                revision: revision_tried,
                state: next.clone(),
                outcome,
            });
            if outcome == CommitOutcome::Committed {
                (revision, state) = (revision_tried, next);
            }
        }
        if random.below(10) == 0 {
            let found = state_at(&store, None).await.expect("read entry");
            assert_eq!(found, (state.clone(), revision), "{what}: between writes");
        }
    }
    let orderly = random.below(3) == 0;
    if orderly {
        disk.limit_free_pages(None);
        disk.fail_syncs_with_enospc(0..0);
    }
    store.close().await;
    assert_eq!(
        PANICS.load(Ordering::SeqCst),
        0,
        "{what}: a thread panicked"
    );
    let trace = disk.trace();
    let position = if orderly {
        trace.len()
    } else {
        random.below(trace.len() + 1)
    };
    let left = image_after_crash(&image, &trace, position, random);
    // Update the model with the states that the next generation may find.
    let done = |attempt: &&RecordedCommit| {
        attempt.outcome == CommitOutcome::Committed && attempt.end <= position
    };
    for attempt in attempts.iter().filter(done) {
        model.states.insert(attempt.revision, attempt.state.clone());
        model.revision = attempt.revision;
    }
    for (_, to) in compactions.iter().filter(|(end, _)| *end <= position) {
        model.compacted = model.compacted.max(*to);
    }
    let possible: Vec<_> = attempts
        .iter()
        .filter(|it| it.revision > model.revision && it.start <= position)
        .filter(|it| it.outcome == CommitOutcome::Unknown || it.end > position)
        .collect();
    let probe = EmbeddedStore::open_on(
        SimulatedDisk::with_image(left.clone()),
        options(segment_bytes, 100_000),
    );
    let probe = probe.await.unwrap_or_else(|error| {
        panic!("{what}, crash after {position} of {}: {error}", trace.len())
    });
    let (found, at) = state_at(&probe, None).await.expect("read entry");
    if (at, &found) != (model.revision, &model.states[&model.revision]) {
        let which = possible
            .iter()
            .find(|attempt| (attempt.revision, &attempt.state) == (at, &found));
        let Some(attempt) = which else {
            let expected = &model.states[&model.revision];
            let back: Vec<_> = found
                .iter()
                .filter(|(key, it)| expected.get(*key) != Some(it))
                .collect();
            let gone: Vec<_> = expected
                .iter()
                .filter(|(key, it)| found.get(*key) != Some(it))
                .collect();
            panic!(
                "{what}, crash after {position} of {}: at {at} instead of {}: {back:?} instead of {gone:?}",
                trace.len(),
                model.revision
            );
        };
        let before = possible.iter().filter(|it| it.revision < attempt.revision);
        for earlier in before {
            model.states.insert(earlier.revision, earlier.state.clone());
        }
        model.states.insert(attempt.revision, attempt.state.clone());
        model.revision = attempt.revision;
    }
    drop(probe);
    left
}

async fn run_generations(seed: u64, count: usize) {
    let mut random = SeededRng::new(seed);
    let mut model = StoreModel {
        states: BTreeMap::from([(1, ModelState::new())]),
        revision: 1,
        compacted: 0,
    };
    // Create an empty store without faults.
    let disk = SimulatedDisk::default();
    let store = EmbeddedStore::open_on(disk.clone(), EmbeddedOptions::default());
    store.await.expect("create store").close().await;
    let mut image = DiskImage::default();
    for operation in disk.trace() {
        image.apply(&operation, usize::MAX);
    }
    for generation in 0..count {
        let what = format!("seed {seed}, generation {generation}");
        image = run_generation(image, &mut model, &mut random, &what).await;
        let oldest = model.compacted.max(1);
        model.states = model.states.split_off(&oldest);
    }
}

fn env_number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_repeated_crashes() {
    count_panics();
    let (first, seeds) = (
        env_number("RHUMB_TEST_SEED", 1),
        env_number("RHUMB_TEST_SEEDS", 4),
    );
    for seed in first..first + seeds {
        run_generations(seed, env_number("RHUMB_TEST_GENERATIONS", 60) as usize).await;
    }
}
