//! What a crash leaves of the embedded store, at any moment and on a disk that tears and forgets.
//!
//! A workload runs once on a simulated disk that records every operation. Then the crash is put after each
//! of them: the disk is rebuilt as that crash could have left it, and the store must open on it with all
//! that had been acknowledged by then.

mod simulated_disk;

use rhumb_store::embedded::{Embedded, Options, Retention};
use rhumb_store::{Error, Expect, Range, Revision, Store, Transaction};
use rhumb_store_conformance::Random;
use simulated_disk::{Image, Operation, SimulatedDisk, after_crash};

const COMMITS: usize = 60;

/// A commit, and where the trace was when it was acknowledged.
struct Acknowledged {
    position: usize,
    revision: Revision,
    state: Vec<(String, String)>,
}

fn options() -> Options {
    Options {
        // So that segments are begun and packed all the time.
        segment_bytes: 8 * 1024,
        retention: Retention {
            revisions_max: 20,
            ..Retention::default()
        },
        ..Options::default()
    }
}

async fn entries(store: &Embedded) -> Result<(Vec<(String, String)>, Revision), Error> {
    let page = store.range(Range::prefix("/")).await?;
    let entry = |entry: rhumb_store::Entry| {
        (
            entry.key.to_string(),
            String::from_utf8_lossy(&entry.value).into_owned(),
        )
    };
    Ok((page.entries.into_iter().map(entry).collect(), page.revision))
}

/// Commits one transaction after the other, with updates, deletions, several keys and compactions.
async fn workload(disk: &SimulatedDisk) -> Vec<Acknowledged> {
    let store = Embedded::open_on(disk.clone(), options())
        .await
        .expect("a new store");
    let mut history = vec![Acknowledged {
        position: disk.position(),
        revision: store.revision().await.expect("the revision"),
        state: Vec::new(),
    }];
    for step in 0..COMMITS {
        let value = format!("{step}:").repeat(1 + (step * 37) % 400);
        let mut transaction = Transaction::new()
            .put(format!("/a/{}", step % 7), value.clone(), Expect::Any)
            .put("/pair", value, Expect::Any);
        if step % 5 == 4 {
            transaction = transaction.delete(format!("/a/{}", (step + 3) % 7), Expect::Any);
        }
        let revision = store.commit(transaction).await.expect("a commit");
        if step % 20 == 19 {
            store.compact(revision).await.expect("a compaction");
        }
        let (state, _) = entries(&store).await.expect("a range");
        history.push(Acknowledged {
            position: disk.position(),
            revision,
            state,
        });
    }
    store.close().await;
    history
}

/// The store on `image` must hold exactly one state of the history, and none before the last one that was
/// acknowledged by `position`.
async fn check(image: Image, history: &[Acknowledged], position: usize) -> SimulatedDisk {
    let disk = SimulatedDisk::with_content(image);
    let store = Embedded::open_on(disk.clone(), options()).await;
    let store = store.unwrap_or_else(|error| panic!("crash after {position}: {error}"));
    let (state, revision) = entries(&store).await.expect("a range");
    let due = history
        .iter()
        .rposition(|acknowledged| acknowledged.position <= position);
    let due = due.map_or(0, |last| last);
    let found = history[due..]
        .iter()
        .position(|acknowledged| acknowledged.state == state && acknowledged.revision == revision)
        .unwrap_or_else(|| {
            panic!("crash after {position}: not a state of the history: {revision}")
        });
    assert!(
        found <= 1,
        "crash after {position}: a commit that had not begun is there"
    );
    let next = Transaction::new().put("/after", "crash", Expect::Absent);
    assert!(store.commit(next).await.expect("a commit") > revision);
    store.close().await;
    disk
}

#[tokio::test]
async fn every_crash_leaves_all_that_was_acknowledged() {
    let disk = SimulatedDisk::default();
    let history = workload(&disk).await;
    let trace = disk.trace();
    let first = history[0].position;
    for seed in 1..=2 {
        let mut random = Random::new(seed);
        for position in first..=trace.len() {
            let image = after_crash(&Image::default(), &trace, position, &mut random);
            check(image, &history, position).await;
        }
    }
}

#[tokio::test]
async fn a_crash_during_recovery_leaves_all_that_was_acknowledged() {
    let disk = SimulatedDisk::default();
    let history = workload(&disk).await;
    let trace = disk.trace();
    let mut random = Random::new(7);
    for position in (history[0].position..=trace.len()).step_by(5) {
        let image = after_crash(&Image::default(), &trace, position, &mut random);
        // Opening the image is the recovery; what it does is recorded, and interrupted once more.
        let recovering = SimulatedDisk::with_content(image.clone());
        let store = Embedded::open_on(recovering.clone(), options())
            .await
            .expect("a recovery");
        let recovery = recovering.trace();
        drop(store);
        let interrupted = random.below(recovery.len() + 1);
        let image = after_crash(&image, &recovery, interrupted, &mut random);
        check(image, &history, position).await;
    }
}

/// Writes cut off after every sector, and those of a status, which is overwritten, after every byte.
#[tokio::test]
async fn a_torn_write_leaves_all_that_was_acknowledged() {
    const STATUS_BYTES_MAX: usize = 64;
    let disk = SimulatedDisk::default();
    let history = workload(&disk).await;
    let trace = disk.trace();
    let mut image = Image::default();
    let mut segments_max = 0;
    for (position, operation) in trace.iter().enumerate() {
        let torn_after: Vec<usize> = match operation {
            Operation::Write { bytes, .. } if bytes.len() <= STATUS_BYTES_MAX => {
                (0..bytes.len()).collect()
            }
            Operation::Write { bytes, .. } => {
                (0..bytes.len().min(16 * 1024)).step_by(512).collect()
            }
            _ => Vec::new(),
        };
        if position >= history[0].position {
            for bytes in torn_after {
                let mut torn = image.clone();
                torn.carry_out(operation, bytes);
                check(torn, &history, position).await;
            }
        }
        image.carry_out(operation, usize::MAX);
        segments_max = segments_max.max(image.segments());
    }
    assert!(segments_max > 2, "segments were begun: {segments_max}");
}

/// The workload is only worth something if segments are packed in it.
#[tokio::test]
async fn segments_are_packed_amid_the_commits() {
    let disk = SimulatedDisk::default();
    workload(&disk).await;
    let trace = disk.trace();
    let removed = |operation: &&Operation| matches!(operation, Operation::Remove { .. });
    let packed = trace.iter().filter(removed).count();
    assert!(packed > 3, "{packed} segments were packed with others");
}
