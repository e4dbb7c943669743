//! A store that lives for many generations: random transactions and compactions, small segments that are packed all the
//! time, a disk that fills up and fails, and a crash at any moment, after which the next generation goes on with what
//! that crash has left. Before it does, everything that can be read is held against a model: entries, revisions, the
//! state at every revision that has not been compacted, and the stream of changes.

mod simulated_disk;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use rhumb_store::embedded::{Embedded, Options, Retention};
use rhumb_store::{Change, ChangeEvent, Error, Expect, Range, Revision, Store, Transaction};
use rhumb_store_conformance::Random;
use simulated_disk::{Image, SimulatedDisk, after_crash};

/// Value, where it was created and where it was modified.
type State = BTreeMap<String, (String, u64, u64)>;

/// Something that was tried, and between which positions of the trace.
struct Attempt {
    start: usize,
    end: usize,
    revision: u64,
    state: State,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Done,
    Nothing,
    Unknown,
}

struct Model {
    /// The state at each revision, as far as that is known.
    states: BTreeMap<u64, State>,
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

fn options(segment_bytes: u64, revisions_max: u64) -> Options {
    Options {
        segment_bytes,
        retention: Retention {
            revisions_max,
            ..Retention::default()
        },
        recent_changes_bytes: 2000,
        ..Options::default()
    }
}

async fn state_at(store: &Embedded, revision: Option<u64>) -> Result<(State, u64), Error> {
    let mut range = Range::prefix("/");
    range.at = revision.map(Revision::new);
    let page = store.range(range).await?;
    let entry = |entry: rhumb_store::Entry| {
        let value = String::from_utf8_lossy(&entry.value).into_owned();
        let (created, modified) = (entry.created.get(), entry.modified.get());
        (entry.key.to_string(), (value, created, modified))
    };
    let state = page.entries.into_iter().map(entry).collect();
    Ok((state, page.revision.get()))
}

/// What the state becomes with a transaction, or `None` if nothing changes.
fn applied(state: &State, changes: &[(String, Option<String>)], revision: u64) -> Option<State> {
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

fn random_changes(random: &mut Random, step: usize) -> Vec<(String, Option<String>)> {
    let mut changes = BTreeMap::new();
    for _ in 0..1 + random.below(3) {
        let key = match random.below(10) {
            // Long-lived ones among short-lived ones.
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

/// Everything that can be read is as the model says; tells where the history begins.
async fn compare(store: &Embedded, model: &Model, what: &str) -> u64 {
    let oldest = match store.changes("/", Revision::new(0)).await {
        Err(Error::Compacted { oldest, .. }) => oldest.get(),
        Ok(_) => 0,
        Err(error) => panic!("{what}: {error}"),
    };
    assert!(oldest >= model.compacted, "{what}: a compaction is lost");
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
        .expect("a stream");
    let mut state = model.states[&oldest.max(1)].clone();
    for revision in oldest.max(1) + 1..=model.revision {
        let event = tokio::time::timeout(Duration::from_secs(20), stream.next()).await;
        let set = match event.expect("an event").expect("a change") {
            ChangeEvent::Changes(set) => set,
            ChangeEvent::Progress(_) => panic!("nobody asked"),
        };
        assert_eq!(set.revision.get(), revision, "{what}: the stream");
        for change in set.changes.iter() {
            match change {
                Change::Put {
                    key,
                    value,
                    created,
                } => {
                    let value = String::from_utf8_lossy(value).into_owned();
                    state.insert(key.to_string(), (value, created.get(), revision));
                }
                Change::Delete { key } => {
                    assert!(
                        state.remove(&**key).is_some(),
                        "{what}: {key} was not there"
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

/// Waits for all of them, each of which is begun in its turn.
async fn all_of<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut answers: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, answer) in waiting.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}

/// One life of the store; answers what a crash or an orderly end leaves.
async fn live(image: Image, model: &mut Model, random: &mut Random, what: &str) -> Image {
    let disk = SimulatedDisk::with_content(image.clone());
    let segment_bytes = [2048, 4096, 8192, 32768][random.below(4)];
    let revisions_max = [20, 60, 100_000][random.below(3)];
    let store = Embedded::open_on(disk.clone(), options(segment_bytes, revisions_max))
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    model.compacted = compare(&store, model, what).await;
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut compactions = vec![(disk.position(), model.compacted)];
    let (mut revision, mut state) = (model.revision, model.states[&model.revision].clone());
    let steps = 5 + random.below(80);
    let faults = random.below(3) == 0;
    for step in 0..steps {
        if faults {
            match random.below(25) {
                0 => disk.leave_room(Some(random.below(8))),
                1..=4 => disk.leave_room(None),
                5 => {
                    let first = random.below(4);
                    disk.fail_syncs_for_lack_of_room(first..first + 1 + random.below(3));
                }
                6 if random.below(6) == 0 => disk.fail_syncs(true),
                7 => {
                    disk.leave_room(None);
                    tokio::time::sleep(Duration::from_millis(110)).await;
                }
                _ => {}
            }
        }
        let start = disk.position();
        if random.below(15) == 0 {
            let to = revision.saturating_sub(random.below(12) as u64);
            if store.compact(Revision::new(to)).await.is_ok() {
                compactions.push((disk.position(), to));
            }
            continue;
        }
        if random.below(12) == 0 {
            // Time for the cleaner.
            tokio::time::sleep(Duration::from_millis(random.below(4) as u64)).await;
        }
        // Several at once share a write; not where one of them may fail, as the next would then mean something else.
        let together = if faults { 1 } else { 1 + random.below(6) };
        let (mut commits, mut tried) = (Vec::new(), Vec::new());
        let (mut drafted_revision, mut drafted) = (revision, state.clone());
        for _ in 0..together {
            let changes = random_changes(random, step);
            let Some(next) = applied(&drafted, &changes, drafted_revision + 1) else {
                continue;
            };
            (drafted_revision, drafted) = (drafted_revision + 1, next);
            tried.push((drafted_revision, drafted.clone()));
            let mut transaction = Transaction::new();
            for (key, value) in changes {
                transaction = match value {
                    Some(value) => transaction.put(key, value, Expect::Any),
                    None => transaction.delete(key, Expect::Any),
                };
            }
            commits.push(store.commit(transaction));
        }
        let answers = all_of(commits).await;
        let end = disk.position();
        for ((revision_tried, next), answer) in tried.into_iter().zip(answers) {
            let outcome = match answer {
                Ok(got) => {
                    assert_eq!(
                        got.get(),
                        revision_tried,
                        "{what}: revisions follow each other"
                    );
                    Outcome::Done
                }
                Err(error) if error.changed_nothing() => Outcome::Nothing,
                Err(_) => Outcome::Unknown,
            };
            attempts.push(Attempt {
                start,
                end,
                revision: revision_tried,
                state: next.clone(),
                outcome,
            });
            if outcome == Outcome::Done {
                (revision, state) = (revision_tried, next);
            }
        }
        if random.below(10) == 0 {
            let found = state_at(&store, None).await.expect("a read");
            assert_eq!(found, (state.clone(), revision), "{what}: amid the writes");
        }
    }
    let orderly = random.below(3) == 0;
    if orderly {
        disk.leave_room(None);
        disk.fail_syncs_for_lack_of_room(0..0);
    }
    store.close().await;
    assert_eq!(
        PANICS.load(Ordering::SeqCst),
        0,
        "{what}: something panicked"
    );
    let trace = disk.trace();
    let position = if orderly {
        trace.len()
    } else {
        random.below(trace.len() + 1)
    };
    let left = after_crash(&image, &trace, position, random);
    // What the next generation may find.
    let done = |attempt: &&Attempt| attempt.outcome == Outcome::Done && attempt.end <= position;
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
        .filter(|it| it.outcome == Outcome::Unknown || it.end > position)
        .collect();
    let probe = Embedded::open_on(
        SimulatedDisk::with_content(left.clone()),
        options(segment_bytes, 100_000),
    );
    let probe = probe.await.unwrap_or_else(|error| {
        panic!("{what}, crash after {position} of {}: {error}", trace.len())
    });
    let (found, at) = state_at(&probe, None).await.expect("a read");
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

async fn generations(seed: u64, count: usize) {
    let mut random = Random::new(seed);
    let mut model = Model {
        states: BTreeMap::from([(1, State::new())]),
        revision: 1,
        compacted: 0,
    };
    // A new store, whole.
    let disk = SimulatedDisk::default();
    let store = Embedded::open_on(disk.clone(), Options::default());
    store.await.expect("a new store").close().await;
    let mut image = Image::default();
    for operation in disk.trace() {
        image.carry_out(&operation, usize::MAX);
    }
    for generation in 0..count {
        let what = format!("seed {seed}, generation {generation}");
        image = live(image, &mut model, &mut random, &what).await;
        let oldest = model.compacted.max(1);
        model.states = model.states.split_off(&oldest);
    }
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_of_crashes_leave_all_that_was_acknowledged() {
    count_panics();
    let (first, seeds) = (number("RHUMB_TEST_SEED", 1), number("RHUMB_TEST_SEEDS", 4));
    for seed in first..first + seeds {
        generations(seed, number("RHUMB_TEST_GENERATIONS", 60) as usize).await;
    }
}
