//! Regression tests for edge cases of the embedded store's log: segment names, deletions, failed renames, stalled
//! readers.

mod simulated_disk;

use std::time::{Duration, Instant};

use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store::{
    ChangeStream, Error, ExpectedRevision, RangeRequest, Revision, Store, Transaction,
};
use simulated_disk::SimulatedDisk;
use tokio::time::timeout;

const SEGMENT_BYTES: u64 = 4096;

/// Long enough for a commit that does not wait for a reader.
const SHORT_WAIT: Duration = Duration::from_millis(50);

fn options() -> EmbeddedOptions {
    EmbeddedOptions {
        segment_bytes: SEGMENT_BYTES,
        ..EmbeddedOptions::default()
    }
}

async fn open(disk: &SimulatedDisk) -> EmbeddedStore {
    let store = EmbeddedStore::open_on(disk.clone(), options()).await;
    store.unwrap_or_else(|error| panic!("failed to open the store: {error}"))
}

async fn put(store: &EmbeddedStore, key: &str, bytes: usize) -> Revision {
    let put = Transaction::new().put(key, "v".repeat(bytes), ExpectedRevision::Any);
    store.commit(put).await.expect("commit write")
}

async fn delete(store: &EmbeddedStore, key: &str) -> Revision {
    let delete = Transaction::new().delete(key, ExpectedRevision::Any);
    store.commit(delete).await.expect("commit deletion")
}

/// Waits until the segment cleaner is idle.
async fn wait_for_cleaner(disk: &SimulatedDisk) {
    let mut before = usize::MAX;
    while disk.operation_count() != before {
        before = disk.operation_count();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
}

async fn compact(store: &EmbeddedStore) {
    let now = store.revision().await.expect("read revision");
    store.compact(now).await.expect("compact");
}

async fn key_exists(store: &EmbeddedStore, key: &str) -> bool {
    store.get(key).await.expect("read entry").is_some()
}

/// A gating stream whose reader does not ask for further events.
async fn stalled_gating_stream(store: &EmbeddedStore) -> Box<dyn ChangeStream> {
    let start = store.revision().await.expect("read revision");
    let mut stream = store
        .changes_gating_commits("/", start)
        .await
        .expect("open stream");
    assert!(timeout(SHORT_WAIT, stream.next()).await.is_err());
    stream
}

/// Seals the active segment by a write that is too large for it.
async fn end_segment(store: &EmbeddedStore, name: &str) {
    put(store, &format!("/live/{name}"), 3000).await;
}

/// Compactions without writes fill a segment; the next segment would get the same name.
#[tokio::test]
async fn consecutive_segments_never_have_the_same_name() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    for index in 0..200 {
        put(&store, &format!("/k/{index}"), 10).await;
    }
    for revision in 2..=200 {
        store
            .compact(Revision::new(revision))
            .await
            .expect("compact");
    }
    put(&store, "/after", 10).await;
    // An idle committer wakes the cleaner once a second.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    wait_for_cleaner(&disk).await;
    store.close().await;
    assert!(key_exists(&open(&disk).await, "/after").await);
}

/// A compaction at the start of a segment, as an idle store makes it automatically, followed by a large write.
#[tokio::test]
async fn a_compaction_and_a_large_write_in_a_new_segment() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    put(&store, "/a", 2400).await;
    // Starting the next segment takes two syncs; the write itself then finds the disk full.
    disk.fill_after_syncs(Some(2));
    let large = Transaction::new().put("/large", "v".repeat(30_000), ExpectedRevision::Any);
    let refused = store.commit(large).await;
    assert!(
        matches!(refused, Err(Error::StorageFull { .. })),
        "{refused:?}"
    );
    disk.fill_after_syncs(None);
    tokio::time::sleep(Duration::from_millis(150)).await;
    compact(&store).await;
    put(&store, "/large", 30_000).await;
    put(&store, "/a", 2400).await;
    compact(&store).await;
    put(&store, "/b", 2400).await;
    wait_for_cleaner(&disk).await;
    store.close().await;
    assert!(key_exists(&open(&disk).await, "/large").await);
}

/// A deletion that is the only record of its key still counts when the key is created again.
#[tokio::test]
async fn a_key_deleted_twice_stays_deleted() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    // The oldest segment is packed first.
    put(&store, "/x", 10).await;
    put(&store, "/garbage", 3000).await;
    end_segment(&store, "1").await;
    delete(&store, "/x").await;
    put(&store, "/later", 10).await;
    end_segment(&store, "2").await;
    put(&store, "/garbage", 10).await;
    compact(&store).await;
    wait_for_cleaner(&disk).await;
    store.close().await;

    // The deletion is now the only record of the key in the log.
    let store = open(&disk).await;
    put(&store, "/x", 10).await;
    put(&store, "/beside", 500).await;
    end_segment(&store, "3").await;
    delete(&store, "/live/1").await;
    compact(&store).await;
    wait_for_cleaner(&disk).await;
    end_segment(&store, "4").await;
    delete(&store, "/x").await;
    put(&store, "/garbage", 3000).await;
    end_segment(&store, "5").await;
    put(&store, "/garbage", 10).await;
    compact(&store).await;
    wait_for_cleaner(&disk).await;
    assert!(!key_exists(&store, "/x").await);
    store.close().await;
    assert!(
        !key_exists(&open(&disk).await, "/x").await,
        "the deleted key reappeared"
    );
}

/// The deletion is dropped before the version that it deleted, and the key was created again later.
#[tokio::test]
async fn the_history_of_a_recreated_key_survives_a_restart() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    put(&store, "/x", 10).await;
    put(&store, "/beside", 500).await;
    end_segment(&store, "1").await;
    put(&store, "/garbage", 3000).await;
    delete(&store, "/x").await;
    end_segment(&store, "2").await;
    let between = put(&store, "/garbage", 10).await;
    put(&store, "/x", 20).await;
    store.compact(between).await.expect("compact");
    wait_for_cleaner(&disk).await;
    let past = || RangeRequest::prefix("/x").at(between);
    assert_eq!(store.range(past()).await.expect("range read").entries, []);
    store.close().await;
    let store = open(&disk).await;
    assert_eq!(store.range(past()).await.expect("range read").entries, []);
}

/// The directory sync fails once after the next segment was renamed; then a small value is written.
#[tokio::test]
async fn a_segment_with_a_failed_rename_sync_does_not_block_writes() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    put(&store, "/a", 2000).await;
    disk.fail_rename_syncs(1);
    let large = Transaction::new().put("/large", "v".repeat(3000), ExpectedRevision::Any);
    let refused = store.commit(large).await;
    assert!(refused.is_err(), "{refused:?}");
    tokio::time::sleep(Duration::from_millis(150)).await;
    // The write may be rejected, but if it is acknowledged it must persist.
    let small = Transaction::new().put("/small", "x", ExpectedRevision::Any);
    let acknowledged = store.commit(small).await.is_ok();
    store.close().await;
    let store = open(&disk).await;
    let found = store.get("/small").await.expect("read entry").is_some();
    assert_eq!(found, acknowledged);
}

/// A commit response waits for a stalled reader, and then the disk fails.
#[tokio::test]
async fn a_waiting_commit_is_answered_when_the_disk_fails() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    let _hanging = stalled_gating_stream(&store).await;
    let mut first =
        Box::pin(store.commit(Transaction::new().put("/a", "x", ExpectedRevision::Any)));
    assert!(
        timeout(SHORT_WAIT, &mut first).await.is_err(),
        "the commit waits for the reader"
    );
    disk.fail_syncs(true);
    let failed = store
        .commit(Transaction::new().put("/b", "x", ExpectedRevision::Any))
        .await;
    assert!(
        matches!(failed, Err(Error::StorageFailed { .. })),
        "{failed:?}"
    );
    let answered = timeout(Duration::from_secs(8), first).await;
    assert!(
        answered.is_ok(),
        "the first writer was not answered in time"
    );
}

/// The same on a full disk, with writers that retry continuously.
#[tokio::test]
async fn a_waiting_commit_is_answered_while_others_are_rejected() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    let _hanging = stalled_gating_stream(&store).await;
    let mut first =
        Box::pin(store.commit(Transaction::new().put("/a", "x", ExpectedRevision::Any)));
    assert!(
        timeout(SHORT_WAIT, &mut first).await.is_err(),
        "the commit waits for the reader"
    );
    disk.fill_after_syncs(Some(0));
    let until = Instant::now() + Duration::from_secs(8);
    while Instant::now() < until {
        let refused = store
            .commit(Transaction::new().put("/b", "x", ExpectedRevision::Any))
            .await;
        assert!(
            matches!(refused, Err(Error::StorageFull { .. })),
            "{refused:?}"
        );
        if timeout(Duration::from_millis(100), &mut first)
            .await
            .is_ok()
        {
            return;
        }
    }
    panic!("the first writer was not answered in time");
}

/// An unreadable sector in a dead record, under a workload of overwrites.
#[tokio::test]
async fn a_bad_sector_does_not_stop_space_reclamation() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    for round in 0..4 {
        put(&store, "/k", 1500 + round).await;
    }
    disk.break_sector("00000000000000000002.log", 2000);
    for round in 0..400 {
        put(&store, "/k", 1500 + round % 3).await;
        if round % 20 == 19 {
            compact(&store).await;
        }
    }
    wait_for_cleaner(&disk).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    wait_for_cleaner(&disk).await;
    let used = disk.bytes_used();
    assert!(
        used < 100_000,
        "{used} bytes for one key of 1500, {} files",
        disk.file_names().len()
    );
}

/// Long-lived keys among short-lived ones: one percent of the written entries stays. All values are empty, so that
/// deletion records are about as large as the records that they delete.
#[tokio::test]
async fn deletion_records_of_small_entries_do_not_accumulate() {
    let disk = SimulatedDisk::default();
    let segment_bytes = 16 * 1024;
    let options = EmbeddedOptions {
        segment_bytes,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open_on(disk.clone(), options)
        .await
        .expect("create store");
    let mut live = 0;
    for round in 0..3000 {
        let mut transaction = Transaction::new();
        for index in 0..10 {
            transaction = transaction.put(
                format!("/short/{round:06}/{index}"),
                "",
                ExpectedRevision::Any,
            );
            if let Some(before) = usize::checked_sub(round, 12) {
                transaction = transaction
                    .delete(format!("/short/{before:06}/{index}"), ExpectedRevision::Any);
            }
        }
        if round % 5 == 0 {
            transaction = transaction.put(format!("/long/{round:06}"), "", ExpectedRevision::Any);
            live += 1;
        }
        store.commit(transaction).await.expect("commit write");
        if round % 50 == 49 {
            compact(&store).await;
        }
    }
    wait_for_cleaner(&disk).await;
    let (used, needed) = (disk.bytes_used(), live * 2 * (19 + 12));
    assert!(
        used < 6 * needed + 4 * segment_bytes as usize,
        "{used} bytes for entries of {needed}"
    );
}

/// A value that looks like thousands of frame headers with long tables, torn by a crash.
#[tokio::test]
async fn a_torn_value_that_looks_like_frames_is_scanned_quickly() {
    let disk = SimulatedDisk::default();
    let store = EmbeddedStore::open_on(disk.clone(), EmbeddedOptions::default())
        .await
        .expect("create store");
    put(&store, "/before", 10).await;
    let records = 1_500_000u32 / 16;
    let mut unit = Vec::new();
    unit.extend_from_slice(b"rhfr");
    unit.extend_from_slice(&[0; 8]);
    unit.extend_from_slice(&records.to_le_bytes());
    unit.extend_from_slice(&[0; 8]);
    assert_eq!(unit.len() % 8, 0);
    // Records start at any offset; one of eight such values is aligned like frames.
    let mut times = Vec::new();
    for shift in 0..8 {
        let mut value = vec![b'.'; shift];
        value.extend(unit.repeat(100_000));
        let put = Transaction::new().put("/hostile", value, ExpectedRevision::Any);
        let position = disk.operation_count();
        store.commit(put).await.expect("commit write");
        let trace = disk.trace();
        let mut image = simulated_disk::DiskImage::default();
        for (number, operation) in trace.iter().enumerate() {
            let large = matches!(operation, simulated_disk::DiskOperation::Write { bytes, .. }
                if number >= position && bytes.len() > 2_000_000 && bytes.iter().any(|byte| *byte != 0));
            if large {
                image.apply(operation, 2_399_000);
                break;
            }
            image.apply(operation, usize::MAX);
        }
        let started = Instant::now();
        let torn =
            EmbeddedStore::open_on(SimulatedDisk::with_image(image), EmbeddedOptions::default())
                .await
                .expect("open store");
        times.push(started.elapsed());
        drop(torn);
    }
    let longest = times.iter().max().expect("at least one measurement");
    assert!(*longest < Duration::from_secs(2), "{times:?}");
}

/// A packed segment was renamed, but the directory sync failed, so the cleaner treats it as a failure. Later it packs
/// one of those segments alone.
#[tokio::test]
async fn a_packed_segment_with_a_failed_rename_sync_resurrects_nothing() {
    let disk = SimulatedDisk::default();
    let one_each = EmbeddedOptions {
        segment_bytes: 1600,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open_on(disk.clone(), one_each)
        .await
        .expect("create store");
    put(&store, "/a", 1400).await;
    let two = Transaction::new()
        .put("/k", "v".repeat(200), ExpectedRevision::Any)
        .put("/b", "v".repeat(150), ExpectedRevision::Any);
    store.commit(two).await.expect("commit write");
    put(&store, "/live", 3000).await;
    put(&store, "/tail", 10).await;
    store.close().await;

    disk.fail_replacing_rename_syncs(1);
    let store = open(&disk).await;
    wait_for_cleaner(&disk).await;
    // The store may reject writes by now.
    let large = Transaction::new().put("/live/1", "v".repeat(3000), ExpectedRevision::Any);
    if store.commit(large).await.is_err() {
        return;
    }
    delete(&store, "/k").await;
    let deleted = disk.operation_count();
    end_segment(&store, "2").await;
    compact(&store).await;
    // Wait out the cleaner's pause after a failure.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    wait_for_cleaner(&disk).await;
    assert!(store.get("/k").await.expect("read entry").is_none());
    store.close().await;
    // A crash after any operation since the deletion.
    let trace = disk.trace();
    let mut image = simulated_disk::DiskImage::default();
    for (position, operation) in trace.iter().enumerate() {
        image.apply(operation, usize::MAX);
        if position >= deleted && matches!(operation, simulated_disk::DiskOperation::Rename { .. })
        {
            let crashed = SimulatedDisk::with_image(image.clone());
            let found = open(&crashed).await.get("/k").await.expect("read entry");
            assert!(
                found.is_none(),
                "the deleted key reappeared after a crash at {position}: {operation:?}"
            );
        }
    }
}

/// A packed first segment of a store looks similar to a backup.
#[tokio::test]
async fn a_segment_of_a_store_is_not_accepted_as_a_backup() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let data = directory.path().join("data");
    let store = EmbeddedStore::open(&data, options())
        .await
        .expect("create store");
    put(&store, "/old", 100).await;
    for round in 0..60 {
        put(&store, "/k", 1500 + round % 3).await;
    }
    compact(&store).await;
    delete(&store, "/old").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    store.close().await;
    let part = data.join("log/00000000000000000002.log");
    let restored = rhumb_store::embedded::restore(&part, &directory.path().join("restored"));
    assert!(restored.is_err(), "{restored:?}");
}

/// After the ack timeout of a stalled reader, later writers do not wait for it.
#[tokio::test]
async fn a_stalled_gating_reader_is_waited_for_once() {
    let disk = SimulatedDisk::default();
    let store = open(&disk).await;
    let _hanging = stalled_gating_stream(&store).await;
    put(&store, "/a", 1).await;
    let started = Instant::now();
    for _ in 0..3 {
        put(&store, "/a", 1).await;
    }
    let took = started.elapsed();
    assert!(
        took < Duration::from_secs(1),
        "three more writes took {took:?}"
    );
}
