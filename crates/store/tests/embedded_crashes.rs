//! Crash tests of the embedded store on a simulated disk that tears writes and loses unsynced data.
//!
//! A workload runs once on the simulated disk, which records every operation. Then a crash is simulated after each
//! operation: the disk is rebuilt as that crash could have left it, and the store must open with everything that had
//! been acknowledged by then.

mod simulated_disk;

use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore, RetentionPolicy};
use rhumb_store::{Error, ExpectedRevision, RangeRequest, Revision, Store, Transaction};
use rhumb_store_conformance::SeededRng;
use simulated_disk::{DiskImage, DiskOperation, SimulatedDisk, image_after_crash};

const COMMITS: usize = 60;

/// A commit, and the length of the disk trace when it was acknowledged.
struct AcknowledgedCommit {
    position: usize,
    revision: Revision,
    state: Vec<(String, String)>,
}

fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        // Small, so that segments are rolled and packed often.
        segment_bytes: 8 * 1024,
        retention: RetentionPolicy {
            revisions_max: 20,
            ..RetentionPolicy::default()
        },
        ..EmbeddedOptions::default()
    }
}

async fn entries(store: &EmbeddedStore) -> Result<(Vec<(String, String)>, Revision), Error> {
    let page = store.range(RangeRequest::prefix("/")).await?;
    let entry = |entry: rhumb_store::StoreEntry| {
        (
            entry.key.to_string(),
            String::from_utf8_lossy(&entry.value).into_owned(),
        )
    };
    Ok((page.entries.into_iter().map(entry).collect(), page.revision))
}

/// Commits transactions one after the other, with updates, deletions, several keys and compactions.
async fn run_workload(disk: &SimulatedDisk) -> Vec<AcknowledgedCommit> {
    let store = EmbeddedStore::open_on(disk.clone(), options())
        .await
        .expect("create store");
    let mut history = vec![AcknowledgedCommit {
        position: disk.operation_count(),
        revision: store.revision().await.expect("read revision"),
        state: Vec::new(),
    }];
    for step in 0..COMMITS {
        let value = format!("{step}:").repeat(1 + (step * 37) % 400);
        let mut transaction = Transaction::new()
            .put(
                format!("/a/{}", step % 7),
                value.clone(),
                ExpectedRevision::Any,
            )
            .put("/pair", value, ExpectedRevision::Any);
        if step % 5 == 4 {
            transaction =
                transaction.delete(format!("/a/{}", (step + 3) % 7), ExpectedRevision::Any);
        }
        let revision = store.commit(transaction).await.expect("commit");
        if step % 20 == 19 {
            store.compact(revision).await.expect("compact");
        }
        let (state, _) = entries(&store).await.expect("range read");
        history.push(AcknowledgedCommit {
            position: disk.operation_count(),
            revision,
            state,
        });
    }
    store.close().await;
    history
}

/// Checks that the store on `image` is in a state of the history, not older than the last one acknowledged by
/// `position`.
async fn check(image: DiskImage, history: &[AcknowledgedCommit], position: usize) -> SimulatedDisk {
    let disk = SimulatedDisk::with_image(image);
    let store = EmbeddedStore::open_on(disk.clone(), options()).await;
    let store = store.unwrap_or_else(|error| panic!("crash after operation {position}: {error}"));
    let (state, revision) = entries(&store).await.expect("range read");
    let due = history
        .iter()
        .rposition(|acknowledged| acknowledged.position <= position);
    let due = due.map_or(0, |last| last);
    let found = history[due..]
        .iter()
        .position(|acknowledged| acknowledged.state == state && acknowledged.revision == revision)
        .unwrap_or_else(|| {
            panic!("crash after operation {position}: no such state in the history: {revision}")
        });
    assert!(
        found <= 1,
        "crash after operation {position}: found a commit that had not started"
    );
    let next = Transaction::new().put("/after", "crash", ExpectedRevision::Absent);
    assert!(store.commit(next).await.expect("commit") > revision);
    store.close().await;
    disk
}

#[tokio::test]
async fn acknowledged_writes_survive_a_crash_at_every_position() {
    let disk = SimulatedDisk::default();
    let history = run_workload(&disk).await;
    let trace = disk.trace();
    let first = history[0].position;
    for seed in 1..=2 {
        let mut random = SeededRng::new(seed);
        for position in first..=trace.len() {
            let image = image_after_crash(&DiskImage::default(), &trace, position, &mut random);
            check(image, &history, position).await;
        }
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_a_crash_during_recovery() {
    let disk = SimulatedDisk::default();
    let history = run_workload(&disk).await;
    let trace = disk.trace();
    let mut random = SeededRng::new(7);
    for position in (history[0].position..=trace.len()).step_by(5) {
        let image = image_after_crash(&DiskImage::default(), &trace, position, &mut random);
        // Opening the image is the recovery; its operations are recorded, and it is interrupted by a second crash.
        let recovering = SimulatedDisk::with_image(image.clone());
        let store = EmbeddedStore::open_on(recovering.clone(), options())
            .await
            .expect("open store after the crash");
        let recovery = recovering.trace();
        drop(store);
        let interrupted = random.below(recovery.len() + 1);
        let image = image_after_crash(&image, &recovery, interrupted, &mut random);
        check(image, &history, position).await;
    }
}

/// Writes are torn after every sector, and status writes, which overwrite in place, after every byte.
#[tokio::test]
async fn acknowledged_writes_survive_torn_writes() {
    const STATUS_BYTES_MAX: usize = 64;
    let disk = SimulatedDisk::default();
    let history = run_workload(&disk).await;
    let trace = disk.trace();
    let mut image = DiskImage::default();
    let mut segments_max = 0;
    for (position, operation) in trace.iter().enumerate() {
        let torn_after: Vec<usize> = match operation {
            DiskOperation::Write { bytes, .. } if bytes.len() <= STATUS_BYTES_MAX => {
                (0..bytes.len()).collect()
            }
            DiskOperation::Write { bytes, .. } => {
                (0..bytes.len().min(16 * 1024)).step_by(512).collect()
            }
            _ => Vec::new(),
        };
        if position >= history[0].position {
            for bytes in torn_after {
                let mut torn = image.clone();
                torn.apply(operation, bytes);
                check(torn, &history, position).await;
            }
        }
        image.apply(operation, usize::MAX);
        segments_max = segments_max.max(image.segment_count());
    }
    assert!(segments_max > 2, "too few segments: {segments_max}");
}

/// Checks that the workload covers packing of segments.
#[tokio::test]
async fn the_workload_packs_segments() {
    let disk = SimulatedDisk::default();
    run_workload(&disk).await;
    let trace = disk.trace();
    let removed = |operation: &&DiskOperation| matches!(operation, DiskOperation::Remove { .. });
    let packed = trace.iter().filter(removed).count();
    assert!(packed > 3, "only {packed} segments were packed");
}
