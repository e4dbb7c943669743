//! The embedded store on a disk that is full, fails to sync or read, or has corrupted data.

mod simulated_disk;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rhumb_store::embedded::{self, EmbeddedOptions, EmbeddedStore};
use rhumb_store::{
    ChangeStreamEvent, Error, ExpectedRevision, RangeRequest, Revision, Store, Transaction,
};
use rhumb_store_conformance::SeededRng;
use simulated_disk::{DiskImage, DiskOperation, SimulatedDisk, image_after_crash};

async fn put(store: &EmbeddedStore, key: &str, value: &str) -> Result<Revision, Error> {
    let transaction = Transaction::new().put(key, value.to_owned(), ExpectedRevision::Any);
    store.commit(transaction).await
}

async fn keys(store: &EmbeddedStore) -> Vec<String> {
    let page = store
        .range(RangeRequest::prefix("/"))
        .await
        .expect("range read");
    page.entries
        .iter()
        .map(|entry| entry.key.to_string())
        .collect()
}

/// Writes a key, retrying until the store has detected that space is available again.
async fn put_when_there_is_room(store: &EmbeddedStore, key: &str, value: &str) -> Revision {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match put(store, key, value).await {
            Ok(revision) => return revision,
            Err(Error::StorageFull { .. } | Error::OutcomeUnknown { .. })
                if Instant::now() < deadline =>
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => panic!("unexpected error with free space: {error}"),
        }
    }
}

/// Writes until the disk is full; returns the acknowledged keys.
async fn fill(store: &EmbeddedStore, from: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for index in from.. {
        let key = format!("/k/{index:06}");
        match put(store, &key, &"v".repeat(3000)).await {
            Ok(_) => acknowledged.push(key),
            Err(Error::StorageFull { .. }) => break,
            Err(error) => panic!("expected StorageFull, got: {error}"),
        }
    }
    acknowledged
}

/// Row 6, repeated with different amounts of free space, so that every stage of a write hits the full disk.
#[tokio::test]
async fn a_full_disk_fails_writes_cleanly_and_the_store_recovers_without_a_restart() {
    let disk = SimulatedDisk::default();
    let store = EmbeddedStore::open_on(disk.clone(), EmbeddedOptions::default())
        .await
        .expect("create store");
    let mut expected = Vec::new();
    let start = store.revision().await.expect("read revision");
    for round in 0..40 {
        disk.limit_free_pages(Some(round));
        expected.extend(fill(&store, round * 1000).await);
        assert_eq!(
            keys(&store).await,
            expected,
            "reads still work, round {round}"
        );
        disk.limit_free_pages(None);
        let key = format!("/k/{:06}", round * 1000 + 999);
        put_when_there_is_room(&store, &key, "room again").await;
        expected.push(key);
    }
    assert_eq!(keys(&store).await, expected);
    let mut stream = store.changes("/k/0", start).await.expect("open stream");
    for key in &expected {
        match stream.next().await.expect("stream still delivers") {
            ChangeStreamEvent::Changes(set) => assert_eq!(&**set.changes[0].key(), key),
            ChangeStreamEvent::Progress(_) => panic!("unexpected progress event"),
        }
    }
    drop(stream);
    store.close().await;
    let store = EmbeddedStore::open_on(disk, EmbeddedOptions::default())
        .await
        .expect("open store");
    assert_eq!(keys(&store).await, expected);
}

/// On a disk without any space writes are not attempted continuously, even with history to remove, and the store
/// recovers afterwards.
#[tokio::test]
async fn a_disk_that_stays_full_does_not_keep_the_store_busy() {
    const SYNCS_A_COMMIT: usize = 1;
    let disk = SimulatedDisk::default();
    let store = EmbeddedStore::open_on(disk.clone(), EmbeddedOptions::default())
        .await
        .expect("create store");
    for index in 0..200 {
        put(&store, &format!("/k/{}", index % 10), &"v".repeat(3000))
            .await
            .expect("commit write");
    }
    let revision = store.revision().await.expect("read revision");
    disk.fill_after_syncs(Some(SYNCS_A_COMMIT));
    store
        .compact(revision)
        .await
        .expect("the last write before the disk is full");
    let before = disk.write_attempts();
    let until = Instant::now() + Duration::from_millis(700);
    while Instant::now() < until {
        let refused = put(&store, "/k/refused", "x").await;
        assert!(
            matches!(&refused, Err(Error::StorageFull { .. })),
            "{refused:?}"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let tries = disk.write_attempts() - before;
    assert!(tries <= 24, "{tries} write attempts in less than a second");
    disk.fill_after_syncs(None);
    put_when_there_is_room(&store, "/k/after", "x").await;
    let mut stream = store.changes("/", revision).await.expect("open stream");
    let mut expected: Vec<String> = (0..10).map(|index| format!("/k/{index}")).collect();
    while expected.last().is_none_or(|last| last != "/k/after") {
        match stream.next().await.expect("change event") {
            ChangeStreamEvent::Changes(set) => expected.push(set.changes[0].key().to_string()),
            ChangeStreamEvent::Progress(_) => panic!("unexpected progress event"),
        }
    }
    expected.sort();
    assert_eq!(keys(&store).await, expected);
}

/// A write whose sync fails for lack of space is undone, and its writer, readers and streams agree on that. If
/// undoing it fails too, the outcome after a crash is unknown, and the store continues without the write.
#[tokio::test]
async fn a_write_with_a_failed_sync_is_reported_with_its_actual_outcome() {
    let mut unknown = 0;
    for first in 0..3 {
        for count in 1..6 {
            let disk = SimulatedDisk::default();
            let store = EmbeddedStore::open_on(disk.clone(), EmbeddedOptions::default())
                .await
                .expect("create store");
            let before = put(&store, "/k/before", "x").await.expect("commit write");
            disk.fail_syncs_with_enospc(first..first + count);
            let outcome = put(&store, "/k/doubtful", "x").await;
            let crashed = disk.trace();
            put_when_there_is_room(&store, "/k/after", "x").await;
            let found = store
                .get("/k/doubtful")
                .await
                .expect("read entry")
                .is_some();
            let is_delivered = next_key(&store, before).await == "/k/doubtful";
            assert_eq!((found, is_delivered), (outcome.is_ok(), outcome.is_ok()));
            disk.fail_syncs_with_enospc(0..0);
            store.close().await;
            let store = EmbeddedStore::open_on(disk, EmbeddedOptions::default())
                .await
                .expect("open store");
            let reopened = store
                .get("/k/doubtful")
                .await
                .expect("read entry")
                .is_some();
            assert_eq!(reopened, found, "syncs {first}..{}", first + count);
            let certain = match outcome {
                Ok(_) => Some(true),
                Err(Error::StorageFull { .. }) => Some(false),
                Err(Error::OutcomeUnknown { .. }) => None,
                Err(error) => panic!("{error}"),
            };
            unknown += usize::from(certain.is_none());
            for seed in 1..20 {
                let after = found_after_crash(&crashed, seed).await;
                assert!(certain.is_none_or(|certain| certain == after));
            }
        }
    }
    assert!(unknown > 0, "no case had an unknown outcome");
}

async fn found_after_crash(trace: &[DiskOperation], seed: u64) -> bool {
    let image = image_after_crash(
        &DiskImage::default(),
        trace,
        trace.len(),
        &mut SeededRng::new(seed),
    );
    let store =
        EmbeddedStore::open_on(SimulatedDisk::with_image(image), EmbeddedOptions::default())
            .await
            .expect("open store");
    store
        .get("/k/doubtful")
        .await
        .expect("read entry")
        .is_some()
}

/// The key of the first change after a revision.
async fn next_key(store: &EmbeddedStore, after: Revision) -> String {
    let mut stream = store.changes("/", after).await.expect("open stream");
    match stream.next().await.expect("change event") {
        ChangeStreamEvent::Changes(set) => set.changes[0].key().to_string(),
        ChangeStreamEvent::Progress(_) => panic!("unexpected progress event"),
    }
}

/// A transient read error.
#[tokio::test]
async fn a_failed_read_does_not_stop_the_store() {
    let disk = SimulatedDisk::default();
    let store = EmbeddedStore::open_on(disk.clone(), EmbeddedOptions::default())
        .await
        .expect("create store");
    for index in 0..100 {
        put(&store, &format!("/k/{index:02}"), &"v".repeat(3000))
            .await
            .expect("commit write");
    }
    for count in [1, 2] {
        disk.fail_reads(count);
        assert_eq!(keys(&store).await.len(), 100, "the read is retried");
        put(&store, "/k/00", "again")
            .await
            .expect("writes still succeed");
    }
    disk.fail_reads(usize::MAX);
    let failed = store.range(RangeRequest::prefix("/")).await;
    assert!(
        matches!(failed, Err(Error::Unavailable { .. })),
        "{failed:?}"
    );
    disk.fail_reads(0);
    assert_eq!(keys(&store).await.len(), 100);
    put_when_there_is_room(&store, "/k/00", "and again").await;
}

/// Row 7.
#[tokio::test]
async fn after_a_failed_sync_nothing_is_acknowledged_until_the_store_is_reopened() {
    let disk = SimulatedDisk::default();
    let store = EmbeddedStore::open_on(disk.clone(), EmbeddedOptions::default())
        .await
        .expect("create store");
    let before = put(&store, "/k/before", "1").await.expect("commit write");
    disk.fail_syncs(true);
    let during = put(&store, "/k/during", "2").await;
    assert!(
        matches!(during, Err(Error::StorageFailed { .. })),
        "{during:?}"
    );
    disk.fail_syncs(false);
    let after = put(&store, "/k/after", "3").await;
    assert!(
        matches!(after, Err(Error::StorageFailed { .. })),
        "{after:?}"
    );
    assert_eq!(store.revision().await.expect("read revision"), before);
    store.close().await;
    // The kernel may have dropped the pages that it failed to write.
    for seed in 1..50 {
        let (trace, mut random) = (disk.trace(), SeededRng::new(seed));
        let image = image_after_crash(
            &DiskImage::default(),
            &trace,
            disk.operation_count(),
            &mut random,
        );
        let disk = SimulatedDisk::with_image(image);
        let store = EmbeddedStore::open_on(disk, EmbeddedOptions::default())
            .await
            .expect("open store");
        let keys = keys(&store).await;
        assert!(
            keys == ["/k/before"] || keys == ["/k/before", "/k/during"],
            "{keys:?}"
        );
        put(&store, "/k/after", "3")
            .await
            .expect("writes succeed again");
    }
}

/// The only segment of a small store.
fn store_file(directory: &Path) -> std::path::PathBuf {
    directory.join("log/00000000000000000002.log")
}

/// Flips one bit in every occurrence of `text` in the file.
fn flip_a_bit_of(file: &Path, text: &str) {
    let mut bytes = fs::read(file).expect("access file");
    let windows = bytes.windows(text.len()).enumerate();
    let offsets: Vec<_> = windows
        .filter(|(_, w)| *w == text.as_bytes())
        .map(|(p, _)| p)
        .collect();
    assert!(!offsets.is_empty(), "{text} not found in the file");
    for offset in offsets {
        bytes[offset + text.len() / 2] ^= 0x10;
    }
    fs::write(file, bytes).expect("access file");
}

/// Row 5.
#[tokio::test]
async fn a_flipped_bit_is_reported_with_its_key_and_affects_no_other_key() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let path = directory.path();
    let store = EmbeddedStore::open(path, EmbeddedOptions::default())
        .await
        .expect("create store");
    for index in 0..50 {
        put(
            &store,
            &format!("/k/{index:02}"),
            &format!("unmistakable-{index:02}"),
        )
        .await
        .expect("commit write");
    }
    let revision = store.revision().await.expect("read revision");
    store.close().await;
    flip_a_bit_of(&store_file(path), "unmistakable-23");

    let report = embedded::check_store(path).expect("check store");
    assert_eq!((report.entries, report.damaged.len()), (49, 1));
    assert!(report.damaged[0].starts_with("/k/23"), "{report:?}");

    let store = EmbeddedStore::open(path, EmbeddedOptions::default())
        .await
        .expect("open store");
    assert_eq!(store.revision().await.expect("read revision"), revision);
    for index in 0..50 {
        let key = format!("/k/{index:02}");
        match store.get(&key).await {
            Ok(Some(entry)) => assert_eq!(entry.value, format!("unmistakable-{index:02}")),
            Err(Error::Damaged { key: named, .. }) => assert_eq!((named, index), (key, 23)),
            other => panic!("{key}: {other:?}"),
        }
    }
    let range = store.range(RangeRequest::prefix("/k/")).await;
    assert!(
        matches!(&range, Err(Error::Damaged { key, .. }) if key == "/k/23"),
        "{range:?}"
    );
    let rest = store
        .range(RangeRequest::prefix("/k/").after("/k/23"))
        .await
        .expect("range read after the damaged key");
    assert_eq!(rest.entries.len(), 26);
    let backup = store.backup(&path.join("backup")).await;
    assert!(backup.is_err(), "a backup must not skip unreadable entries");
    let delete = Transaction::new().delete("/k/23", ExpectedRevision::Any);
    store
        .commit(delete)
        .await
        .expect("a damaged entry can be deleted");
    assert_eq!(keys(&store).await.len(), 49);
}

/// Random damage anywhere in the file: reads return the written value or an error.
#[tokio::test]
async fn damage_anywhere_in_the_file_never_changes_a_value() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let good = make_store(directory.path(), 200).await;
    let mut random = SeededRng::new(3);
    for _ in 0..300 {
        let mut bytes = good.clone();
        let offset = random.below(bytes.len());
        let length = 1 + random.below(64);
        for byte in bytes.iter_mut().skip(offset).take(length) {
            *byte ^= 1 << random.below(8);
        }
        check_damaged(bytes, 200, offset).await;
    }
}

/// Single flipped bits anywhere, including headers, tables, checksums and lengths.
#[tokio::test]
async fn no_single_flipped_bit_makes_an_entry_disappear() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let good = make_store(directory.path(), 12).await;
    let used = |offset: &usize| {
        good[offset.saturating_sub(64)..*offset + 1]
            .iter()
            .any(|byte| *byte != 0)
    };
    for offset in (0..good.len()).filter(used) {
        let mut bytes = good.clone();
        bytes[offset] ^= 1 << (offset % 8);
        check_damaged(bytes, 12, offset).await;
    }
}

/// Several segments, of which one is truncated, empty or missing.
#[tokio::test]
async fn a_missing_or_truncated_segment_is_detected() {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let path = directory.path();
    let options = || EmbeddedOptions {
        segment_bytes: 16 * 1024,
        ..EmbeddedOptions::default()
    };
    let store = EmbeddedStore::open(path, options())
        .await
        .expect("create store");
    for index in 0..200 {
        put(&store, &format!("/k/{index:03}"), &value(index))
            .await
            .expect("commit write");
    }
    store.close().await;
    let items = fs::read_dir(path.join("log")).expect("read log directory");
    let mut files: Vec<_> = items
        .map(|item| item.expect("directory entry").path())
        .collect();
    files.sort();
    assert!(files.len() > 3, "{files:?}");
    for file in files {
        let good = fs::read(&file).expect("read segment file");
        fs::remove_file(&file).expect("remove segment file");
        assert!(
            EmbeddedStore::open(path, options()).await.is_err(),
            "{file:?} is missing"
        );
        for length in [0, 10, 600, 1100, good.len() / 2, good.len() - 64] {
            fs::write(&file, &good[..length]).expect("truncate segment file");
            let opened = EmbeddedStore::open(path, options()).await.map(|_| ());
            assert!(opened.is_err(), "{file:?} truncated to {length}");
        }
        fs::write(&file, &good).expect("restore segment file");
    }
    let store = EmbeddedStore::open(path, options())
        .await
        .expect("open store");
    assert_eq!(keys(&store).await.len(), 200);
}

fn value(index: usize) -> String {
    format!("value {index:03} ").repeat(20)
}

/// Creates a store with this many entries and returns the bytes of its segment.
async fn make_store(directory: &Path, entries: usize) -> Vec<u8> {
    let store = EmbeddedStore::open(directory, EmbeddedOptions::default())
        .await
        .expect("create store");
    for index in 0..entries {
        put(&store, &format!("/k/{index:03}"), &value(index))
            .await
            .expect("commit write");
    }
    store.close().await;
    fs::read(store_file(directory)).expect("access file")
}

/// Opens a damaged file: opening or reading an entry may fail, but a successful read must return the written value.
async fn check_damaged(bytes: Vec<u8>, entries: usize, offset: usize) {
    let damaged = tempfile::tempdir().expect("create temporary directory");
    fs::create_dir(damaged.path().join("log")).expect("create directory");
    fs::write(store_file(damaged.path()), bytes).expect("access file");
    let checked = embedded::check_store(damaged.path());
    let Ok(store) = EmbeddedStore::open(damaged.path(), EmbeddedOptions::default()).await else {
        return;
    };
    let mut errors = 0;
    for index in 0..entries {
        match store.get(&format!("/k/{index:03}")).await {
            Ok(Some(entry)) => assert_eq!(entry.value, value(index)),
            Ok(None) => panic!("damage at {offset} made entry {index} disappear"),
            Err(_) => errors += 1,
        }
    }
    if let Ok(report) = checked {
        assert_eq!(
            report.damaged.len(),
            errors,
            "damage at {offset}: {report:?}"
        );
    }
    store.close().await;
}
